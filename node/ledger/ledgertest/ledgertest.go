// Package ledgertest is the conformance suite of ledger.Ledger: what its comments promise, as named cases that the
// simulated cluster and a real Kafka both pass. So what a test finds out with faults on the simulated one is true of
// the other.
//
// A case looks at what consumers see by a way of its own (Environment.Records), so that an adapter cannot agree with
// itself about something wrong. No case sleeps.
package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// Environment is a cluster with a ledger, for one case.
type Environment struct {
	// Open returns a ledger on the topic, as another node has it. All of them fence each other.
	Open func(t testing.TB) ledger.Ledger

	// OutputTopic is a topic with several partitions, which refuses records of more than 10,000 bytes.
	OutputTopic string

	// Records returns what a consumer sees of a topic that reads what was committed (or, if committed is false, all
	// there is), in the order of each partition. If committed is true, it waits until there are no open transactions.
	Records func(t testing.TB, topic string, committed bool) []node.Record

	// Freeze appends a transaction to partition number as a writer does that is stopped right before it commits: all
	// of it is on the brokers. That writer is the owner from then on. GoOn has it go on, and commit.
	Freeze func(t testing.TB, number int32, transaction ledger.Transaction) (goOn func() error)

	// DeleteRecords removes the records of a partition of the ledger before an offset.
	DeleteRecords func(t testing.TB, number int32, before int64)

	// Recreate deletes the topic of the ledger, and creates it again.
	Recreate func(t testing.TB)
}

// Partitions is how many the topic of the ledger has.
const Partitions = 3

// Run runs every case as a parallel subtest. open is called for each of them.
func Run(t *testing.T, open func(t *testing.T) Environment) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*subject)
	}{
		{"a transaction is there as a whole", whole},
		{"entries come back as they were, from where one likes", reads},
		{"bytes and nulls", payload},
		{"a new writer fences the one before", fences},
		{"partitions have writers of their own", apart},
		{"a frozen owner's transaction never appears", frozen},
		{"consumers are not held up by a writer that is gone", unblocked},
		{"what is decided ends before a transaction that is open", decided},
		{"the end of the log is that of what is decided", ends},
		{"a refused output aborts all of it", refused},
		{"an output to a topic that is missing aborts all of it", missing},
		{"a writer goes on after an abort", goesOn},
		{"what retention took is no place to read from", retained},
		{"a topic that was created again is another one", recreated},
		{"a reader's error ends the reading", stopsReading},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&subject{TB: t, Environment: open(t)})
		})
	}
}

// subject is an environment in one case.
type subject struct {
	testing.TB
	Environment
}

// own opens a ledger and owns a partition.
func (s *subject) own(number int32) (ledger.Ledger, ledger.Writer) {
	s.Helper()
	l := s.Open(s)
	w, err := l.Own(s.Context(), number, entry("fence", "of somebody"))
	if err != nil {
		s.Fatalf("own: %v", err)
	}
	s.Cleanup(w.Close)
	return l, w
}

func (s *subject) commit(w ledger.Writer, transaction ledger.Transaction) int64 {
	s.Helper()
	end, err := w.Commit(s.Context(), transaction)
	if err != nil {
		s.Fatalf("commit: %v", err)
	}
	return end
}

// begin returns where the log of a partition begins.
func (s *subject) begin(l ledger.Ledger, number int32) ledger.Place {
	s.Helper()
	from, err := l.Begin(s.Context(), number)
	if err != nil {
		s.Fatalf("begin: %v", err)
	}
	return from
}

// read returns the entries of a partition between two places.
func (s *subject) read(l ledger.Ledger, from ledger.Place, until int64) []ledger.Committed {
	s.Helper()
	var entries []ledger.Committed
	if err := l.Read(s.Context(), from, until, func(e ledger.Committed) error {
		entries = append(entries, e)
		return nil
	}); err != nil {
		s.Fatalf("read from %d to %d: %v", from.Offset, until, err)
	}
	return entries
}

// all returns the entries of a partition without the fences, as text, up to the fence of a new writer.
func (s *subject) all(number int32) []string {
	s.Helper()
	l, w := s.own(number)
	return texts(s.read(l, s.begin(l, number), w.Fence()))
}

func (s *subject) check(what string, got, want []string) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

// outputs returns the values on the output topic, sorted.
func (s *subject) outputs(committed bool) []string {
	s.Helper()
	var values []string
	for _, r := range s.Records(s, s.OutputTopic, committed) {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	return values
}

func entry(key, value string) ledger.Entry {
	return ledger.Entry{Key: []byte(key), Value: []byte(value)}
}

func (s *subject) output(key, value string) node.Record {
	return node.Record{Topic: s.OutputTopic, Key: []byte(key), Value: []byte(value)}
}

func texts(entries []ledger.Committed) []string {
	var list []string
	for _, e := range entries {
		if !bytes.Equal(e.Key, []byte("fence")) {
			list = append(list, fmt.Sprintf("%s=%s", e.Key, e.Value))
		}
	}
	return list
}

func whole(s *subject) {
	l, w := s.own(0)
	end := s.commit(w, ledger.Transaction{
		Entries: []ledger.Entry{entry("a", "1"), entry("b", "2")},
		Outputs: []node.Record{s.output("x", "first"), s.output("y", "second")},
	})
	got := s.read(l, s.begin(l, 0), end)
	s.check("entries", texts(got), []string{"a=1", "b=2"})
	if last := got[len(got)-1].Offset; last != end-1 {
		s.Fatalf("the end is %d, and the last entry stands at %d", end, last)
	}
	s.check("outputs", s.outputs(true), []string{"first", "second"})
}

func reads(s *subject) {
	l, w := s.own(1)
	first := s.commit(w, ledger.Transaction{Entries: []ledger.Entry{entry("a", "1"), entry("b", "2")}})
	second := s.commit(w, ledger.Transaction{Entries: []ledger.Entry{entry("a", "3")}})
	third := s.commit(w, ledger.Transaction{Entries: []ledger.Entry{entry("c", "4")}})
	from := s.begin(l, 1)
	entries := s.read(l, from, third)
	s.check("all", texts(entries), []string{"a=1", "b=2", "a=3", "c=4"})
	s.check("up to the second", texts(s.read(l, from, second)), []string{"a=1", "b=2", "a=3"})
	for i, e := range entries[:len(entries)-1] {
		from.Position = node.Position{Epoch: e.Epoch, Offset: e.Offset + 1}
		s.check("from a place on", texts(s.read(l, from, third)), texts(entries[i+1:]))
	}
	from.Position = node.Position{Epoch: entries[1].Epoch, Offset: first}
	s.check("nothing", texts(s.read(l, from, first)), nil)
	_, again := s.own(1)
	from.Position = node.Position{Epoch: entries[len(entries)-1].Epoch, Offset: third}
	s.check("up to a fence", texts(s.read(l, from, again.Fence()+1)), nil)
}

func payload(s *subject) {
	l, w := s.own(0)
	headers := []node.Header{{Name: "n", Value: nil}, {Name: "n", Value: []byte{}}, {Name: "\xff", Value: []byte{0}}}
	end := s.commit(w, ledger.Transaction{
		Entries: []ledger.Entry{
			{Key: []byte{0, 0xff}, Value: []byte{}},
			{Key: []byte{1}, Value: nil},
			{Key: []byte{}, Value: []byte{0}},
			{Key: []byte{2}, Value: bytes.Repeat([]byte{7}, ledger.MaxEntryBytes-1)},
		},
		Outputs: []node.Record{
			{Topic: s.OutputTopic, Key: nil, Value: nil, Headers: headers},
			{Topic: s.OutputTopic, Key: []byte{}, Value: []byte{}},
		},
	})
	entries := s.read(l, s.begin(l, 0), end)[1:]
	if len(entries) != 4 || entries[0].Value == nil || entries[1].Value != nil || entries[2].Key == nil ||
		len(entries[3].Value) != ledger.MaxEntryBytes-1 {
		s.Fatalf("entries come back otherwise: %d of them", len(entries))
	}
	records := s.Records(s, s.OutputTopic, true)
	slices.SortFunc(records, func(a, b node.Record) int { return len(a.Headers) - len(b.Headers) })
	if len(records) != 2 || records[0].Key == nil || records[0].Value == nil || records[1].Key != nil ||
		records[1].Value != nil || len(records[1].Headers) != 3 || records[1].Headers[0].Value != nil ||
		records[1].Headers[1].Value == nil {
		s.Fatalf("outputs come out otherwise: %+v", records)
	}
}

func fences(s *subject) {
	_, first := s.own(0)
	s.commit(first, ledger.Transaction{Entries: []ledger.Entry{entry("a", "1")}})
	_, second := s.own(0)
	if second.Fence() <= first.Fence() {
		s.Fatalf("the fences stand at %d and %d", first.Fence(), second.Fence())
	}
	for range 2 {
		_, err := first.Commit(s.Context(), ledger.Transaction{
			Entries: []ledger.Entry{entry("b", "2")}, Outputs: []node.Record{s.output("x", "late")},
		})
		if !errors.Is(err, ledger.ErrFenced) {
			s.Fatalf("the writer of before commits: %v", err)
		}
	}
	s.commit(second, ledger.Transaction{
		Entries: []ledger.Entry{entry("c", "3")}, Outputs: []node.Record{s.output("x", "right")},
	})
	s.check("entries", s.all(0), []string{"a=1", "c=3"})
	s.check("outputs", s.outputs(true), []string{"right"})
}

func apart(s *subject) {
	_, zero := s.own(0)
	_, one := s.own(1)
	s.commit(zero, ledger.Transaction{Entries: []ledger.Entry{entry("a", "0")}})
	s.commit(one, ledger.Transaction{Entries: []ledger.Entry{entry("a", "1")}})
	s.commit(zero, ledger.Transaction{Entries: []ledger.Entry{entry("b", "0")}})
	s.check("partition 0", s.all(0), []string{"a=0", "b=0"})
	s.check("partition 1", s.all(1), []string{"a=1"})
}

// frozen is the case that the journal is for: see ledger.Ledger.Own.
func frozen(s *subject) {
	_, before := s.own(2)
	s.commit(before, ledger.Transaction{Entries: []ledger.Entry{entry("x", "waits")}})
	goOn := s.Freeze(s, 2, ledger.Transaction{
		Entries: []ledger.Entry{{Key: []byte("x")}}, Outputs: []node.Record{s.output("x", "of the frozen")},
	})
	l, after := s.own(2)
	s.check("entries before the fence", texts(s.read(l, s.begin(l, 2), after.Fence())), []string{"x=waits"})
	s.commit(after, ledger.Transaction{
		Entries: []ledger.Entry{{Key: []byte("x")}}, Outputs: []node.Record{s.output("x", "of the new one")},
	})
	if err := goOn(); !errors.Is(err, ledger.ErrFenced) {
		s.Fatalf("the frozen writer commits: %v", err)
	}
	s.check("outputs", s.outputs(true), []string{"of the new one"})
	s.check("entries", s.all(2), []string{"x=waits", "x="})
	s.check("outputs that were aborted are there", s.outputs(false), []string{"of the frozen", "of the new one"})
}

func unblocked(s *subject) {
	s.Freeze(s, 0, ledger.Transaction{Outputs: []node.Record{s.output("x", "never")}})
	_, w := s.own(0)
	s.commit(w, ledger.Transaction{Outputs: []node.Record{s.output("x", "behind it")}})
	s.check("outputs", s.outputs(true), []string{"behind it"})
}

// decided is the case that standbys are for: whoever does not own a partition reads up to where it is decided.
func decided(s *subject) {
	reader, before := s.own(1)
	end := s.commit(before, ledger.Transaction{Entries: []ledger.Entry{entry("x", "waits")}})
	s.Freeze(s, 1, ledger.Transaction{
		Entries: []ledger.Entry{{Key: []byte("x")}}, Outputs: []node.Record{s.output("x", "of the frozen")},
	})
	open := s.extent(reader, 1)
	if open.First > open.End || open.End < end {
		s.Fatalf("the extent is %+v, and something that ends at %d was committed", open, end)
	}
	s.check("while it is open", texts(s.read(reader, s.begin(reader, 1), open.End)), []string{"x=waits"})
	_, after := s.own(1)
	last := s.commit(after, ledger.Transaction{Entries: []ledger.Entry{entry("y", "waits")}})
	from := s.begin(reader, 1)
	s.endsBehind(reader, 1, last)
	aborted := s.extent(reader, 1)
	if aborted.End <= open.End || aborted.TopicID != from.TopicID || aborted.First != from.Offset {
		s.Fatalf("the extent is %+v, and was %+v; the log begins at %+v", aborted, open, from)
	}
	from.Offset = open.End
	s.check("behind it", texts(s.read(reader, from, aborted.End)), []string{"y=waits"})
}

// ends asks where the log ends: behind what was committed, and before a transaction that is open and whatever is
// appended afterwards.
func ends(s *subject) {
	reader, before := s.own(1)
	committed := s.commit(before, ledger.Transaction{Entries: []ledger.Entry{entry("x", "waits")}})
	quiet, begin := s.endsBehind(reader, 1, committed), s.begin(reader, 1)
	if quiet.TopicID != begin.TopicID || quiet.Number != 1 {
		s.Fatalf("the log ends at %+v; it begins at %+v, and has something up to %d", quiet, begin, committed)
	}
	s.Freeze(s, 1, ledger.Transaction{Entries: []ledger.Entry{{Key: []byte("x")}}})
	open := s.end(reader, 1)
	if decided := s.extent(reader, 1).End; open.Offset != decided || open.Offset < quiet.Offset {
		s.Fatalf("the log ends at %d, after %d, and a transaction is open at %d", open.Offset, quiet.Offset, decided)
	}
	_, after := s.own(1)
	last := s.commit(after, ledger.Transaction{Entries: []ledger.Entry{entry("y", "waits")}})
	s.check("behind it", texts(s.read(reader, open, last)), []string{"y=waits"})
	s.endsBehind(reader, 1, last)
}

// endsBehind returns where the log of a partition ends, once all before an offset is decided, which has been committed.
// The brokers of Kafka answer a commit before its marker is in the log:
//
//	coordinator   writes down that the transaction is committed, and answers
//	reader                                        asks for the end: before the transaction
//	leader                                                              appends the marker
func (s *subject) endsBehind(l ledger.Ledger, number int32, offset int64) ledger.Place {
	s.Helper()
	for began := time.Now(); ; {
		switch place := s.end(l, number); {
		case place.Offset >= offset:
			return place
		case time.Since(began) > time.Minute:
			s.Fatalf("the log ends at %d, and has something up to %d", place.Offset, offset)
		}
	}
}

// end returns where the log of a partition ends.
func (s *subject) end(l ledger.Ledger, number int32) ledger.Place {
	s.Helper()
	place, err := l.End(s.Context(), number)
	if err != nil {
		s.Fatalf("end: %v", err)
	}
	return place
}

// extent returns where a partition begins, and where what is decided of it ends.
func (s *subject) extent(l ledger.Ledger, number int32) node.Extent {
	s.Helper()
	extents, err := l.Extents(s.Context())
	if err != nil {
		s.Fatalf("extents: %v", err)
	}
	for _, extent := range extents {
		if extent.Number == number {
			return extent
		}
	}
	s.Fatalf("there is no partition %d in %v", number, extents)
	return node.Extent{}
}

func refused(s *subject) {
	_, w := s.own(0)
	noise := make([]byte, 20_000) // which can't be compressed
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	large := s.output("x", string(noise))
	_, err := w.Commit(s.Context(), ledger.Transaction{
		Entries: []ledger.Entry{entry("a", "1")}, Outputs: []node.Record{s.output("y", "small"), large},
	})
	why := s.refusal(err)
	if node.KindOf(why.Errs[1]) != node.RecordRejected {
		s.Fatalf("the large output is not to blame: %v", err)
	}
	s.check("entries", s.all(0), nil)
	s.check("outputs", s.outputs(true), nil)
}

func missing(s *subject) {
	_, w := s.own(0)
	nowhere := node.Record{Topic: s.OutputTopic + "-missing", Value: []byte("1")}
	_, err := w.Commit(s.Context(), ledger.Transaction{
		Entries: []ledger.Entry{entry("a", "1")}, Outputs: []node.Record{nowhere, s.output("y", "2")},
	})
	why := s.refusal(err)
	if node.KindOf(why.Errs[0]) != node.TopicMissing || why.Errs[1] != nil {
		s.Fatalf("the first output is to blame alone: %v", err)
	}
	s.check("entries", s.all(0), nil)
	s.check("outputs", s.outputs(true), nil)
}

// refusal returns the RefusedError in err, and ends the case if there is none, or the transaction is not aborted.
func (s *subject) refusal(err error) *ledger.RefusedError {
	s.Helper()
	var why *ledger.RefusedError
	if !errors.Is(err, ledger.ErrAborted) || errors.Is(err, ledger.ErrFenced) || !errors.As(err, &why) {
		s.Fatalf("want outputs that are refused, and nothing committed; the error is: %v", err)
	}
	return why
}

func goesOn(s *subject) {
	_, w := s.own(0)
	nowhere := node.Record{Topic: s.OutputTopic + "-missing", Value: []byte("1")}
	for range 2 {
		_, err := w.Commit(s.Context(), ledger.Transaction{
			Entries: []ledger.Entry{entry("a", "1")}, Outputs: []node.Record{nowhere},
		})
		if why := s.refusal(err); why.Errs[0] == nil {
			s.Fatalf("the output is not to blame: %v", err)
		}
		s.commit(w, ledger.Transaction{
			Entries: []ledger.Entry{entry("b", "2")}, Outputs: []node.Record{s.output("y", "2")},
		})
	}
	s.check("entries", s.all(0), []string{"b=2", "b=2"})
	s.check("outputs", s.outputs(true), []string{"2", "2"})
}

func retained(s *subject) {
	l, w := s.own(0)
	from := s.begin(l, 0)
	first := s.commit(w, ledger.Transaction{Entries: []ledger.Entry{entry("a", "1")}})
	end := s.commit(w, ledger.Transaction{Entries: []ledger.Entry{entry("b", "2")}})
	s.DeleteRecords(s, 0, first)
	if err := l.Read(s.Context(), from, end, ignore); !errors.Is(err, ledger.ErrTruncated) {
		s.Fatalf("the beginning is gone, and reading from there: %v", err)
	}
	begin := s.begin(l, 0)
	if begin.Offset != first {
		s.Fatalf("the log begins at %d, want %d", begin.Offset, first)
	}
	s.check("the rest", texts(s.read(l, begin, end)), []string{"b=2"})
	begin.Offset = end + 100
	if err := l.Read(s.Context(), begin, end+200, ignore); !errors.Is(err, ledger.ErrTruncated) {
		s.Fatalf("reading from beyond the end: %v", err)
	}
}

func recreated(s *subject) {
	l, w := s.own(0)
	from := s.begin(l, 0)
	s.commit(w, ledger.Transaction{Entries: []ledger.Entry{entry("a", "1")}})
	s.Recreate(s)
	l, w = s.own(0)
	if err := l.Read(s.Context(), from, w.Fence(), ignore); !errors.Is(err, ledger.ErrTruncated) {
		s.Fatalf("the topic is another one, and reading as if it were the same: %v", err)
	}
	if again := s.begin(l, 0); again.TopicID == from.TopicID || again.TopicID == uuid.Nil {
		s.Fatalf("the topic has the id %v, and had %v", again.TopicID, from.TopicID)
	}
}

func stopsReading(s *subject) {
	l, w := s.own(0)
	end := s.commit(w, ledger.Transaction{Entries: []ledger.Entry{entry("a", "1"), entry("b", "2")}})
	stop := errors.New("enough")
	read := 0
	err := l.Read(s.Context(), s.begin(l, 0), end, func(ledger.Committed) error {
		read++
		return stop
	})
	if !errors.Is(err, stop) || read != 1 {
		s.Fatalf("read %d entries, and then: %v", read, err)
	}
	done, cancel := context.WithCancel(s.Context())
	cancel()
	if err := l.Read(done, s.begin(l, 0), end, ignore); err == nil {
		s.Fatal("reading with a context that is done returns nil")
	}
}

func ignore(ledger.Committed) error { return nil }
