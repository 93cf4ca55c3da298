package journal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/store/journal"
)

// prompt is a ledger that commits at once, and keeps nothing.
type prompt struct{ end int64 }

func (p *prompt) Own(context.Context, int32, ledger.Entry) (ledger.Writer, error) {
	p.end++
	return p, nil
}

func (p *prompt) Read(
	_ context.Context, _ ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	return each(ledger.Committed{Entry: ledger.Entry{Key: []byte("f")}, Offset: until - 1})
}

func (p *prompt) Begin(context.Context, int32) (ledger.Place, error) { return ledger.Place{}, nil }
func (p *prompt) Extents(context.Context) ([]node.Extent, error)     { return nil, nil }
func (p *prompt) End(context.Context, int32) (ledger.Place, error)   { return ledger.Place{}, nil }
func (p *prompt) Fence() int64                                       { return p.end - 1 }
func (p *prompt) Close()                                             {}

func (p *prompt) Commit(_ context.Context, transaction ledger.Transaction) (int64, error) {
	p.end += int64(len(transaction.Entries)) + 1
	return p.end, nil
}

// What a node works for a message with a journal, without Kafka: it is taken in, claimed and fired, with a kilobyte and
// 250 others at a time.
func BenchmarkStore(b *testing.B) {
	const batch = 250
	store, err := journal.Open(journal.Config{Ledger: &prompt{}, Dir: b.TempDir(), Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	}()
	if err := store.Own(b.Context(), 0, uuid.New()); err != nil {
		b.Fatal(err)
	}
	from := node.Place{Partition: input()}
	value := make([]byte, 1000)
	positions, _, err := store.Positions(b.Context(), []node.Place{from})
	if err != nil {
		b.Fatal(err)
	}
	from.Position = positions[0]
	var taking, claiming, firing time.Duration
	for b.Loop() {
		items := make([]node.Item, batch)
		records, next := make([]node.Record, batch), make([]node.Next, batch)
		for i := range items {
			items[i] = node.Item{Offset: from.Offset + int64(i), Action: node.Schedule, Message: node.Message{
				ID: fmt.Sprint(from.Offset + int64(i)), Lane: output, Incarnation: uuid.New(),
				Deadline: time.Now().UTC(), Value: value, Key: []byte("key"),
			}}
			records[i], next[i] = node.Record{Topic: output, Value: value}, node.Next{Of: items[i].Ref()}
		}
		began := time.Now()
		result, err := store.Take(b.Context(), node.TakeRequest{From: []node.Place{from}, Items: items})
		if err != nil || result.Taken != batch {
			b.Fatal(result, err)
		}
		from.Position = result.Positions[0]
		taken := time.Now()
		claimed, err := store.Claim(b.Context(), node.ClaimRequest{
			Hold: time.Minute, Until: time.Now(), Lanes: []node.Share{{Lane: output, Limit: batch, Bytes: 1 << 30}},
		})
		if err != nil || len(claimed.Messages) != batch {
			b.Fatal(len(claimed.Messages), err)
		}
		had := time.Now()
		if _, errs := store.Fire(b.Context(), records, next); errs[0] != nil || errs[batch-1] != nil {
			b.Fatal(errs)
		}
		taking += taken.Sub(began)
		claiming += had.Sub(taken)
		firing += time.Since(had)
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) / batch }
	b.ReportMetric(each(taking), "ns/take")
	b.ReportMetric(each(claiming), "ns/claim")
	b.ReportMetric(each(firing), "ns/fire")
}

// keeping is a ledger that commits at once, and keeps what it is told.
type keeping struct {
	prompt

	kept []ledger.Committed
}

func (k *keeping) Own(_ context.Context, _ int32, fence ledger.Entry) (ledger.Writer, error) {
	_, err := k.Commit(context.Background(), ledger.Transaction{Entries: []ledger.Entry{fence}})
	return k, err
}

func (k *keeping) Fence() int64 { return int64(len(k.kept)) - 1 }

func (k *keeping) Commit(_ context.Context, transaction ledger.Transaction) (int64, error) {
	for _, e := range transaction.Entries {
		k.kept = append(k.kept, ledger.Committed{Entry: e, Offset: int64(len(k.kept)), At: time.Now()})
	}
	return int64(len(k.kept)), nil
}

func (k *keeping) Read(
	_ context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	for _, e := range k.kept[from.Offset:until] {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// What a node works for each message that waits when it takes a partition over without a copy, without Kafka: 200,000
// of 100 bytes.
func BenchmarkReplay(b *testing.B) {
	const messages, batch = 200_000, 1000
	log := &keeping{}
	store, err := journal.Open(journal.Config{Ledger: log, Dir: b.TempDir(), Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	if err := store.Own(b.Context(), 0, uuid.New()); err != nil {
		b.Fatal(err)
	}
	from := node.Place{Partition: input()}
	if _, _, err := store.Positions(b.Context(), []node.Place{from}); err != nil {
		b.Fatal(err)
	}
	for from.Offset < messages {
		items := make([]node.Item, batch)
		for i := range items {
			items[i] = node.Item{Offset: from.Offset + int64(i), Action: node.Schedule, Message: node.Message{
				ID: uuid.NewString(), Lane: output, Incarnation: uuid.New(), Deadline: time.Now().UTC(),
				Value: make([]byte, 100), Key: []byte("key"),
			}}
		}
		result, err := store.Take(b.Context(), node.TakeRequest{From: []node.Place{from}, Items: items})
		if err != nil {
			b.Fatal(err)
		}
		from.Position = result.Positions[0]
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	runs := 0
	for b.Loop() {
		fresh, err := journal.Open(journal.Config{Ledger: log, Dir: b.TempDir(), Now: time.Now})
		if err != nil {
			b.Fatal(err)
		}
		if err := fresh.Own(b.Context(), 0, uuid.New()); err != nil {
			b.Fatal(err)
		}
		if err := fresh.Close(); err != nil {
			b.Fatal(err)
		}
		runs++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(runs*messages), "ns/message")
}
