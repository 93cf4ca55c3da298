package deadletter

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// listed is how many of the last records of each topic a list looks at, and listLimit how many it shows.
	listed    = 1000
	listLimit = 100

	// walked is how many records one page of a replay looks at.
	walked = 500

	// longest is how long a list may take, and maxAsked how many questions are answered at once: records may be large.
	longest  = 8 * time.Second
	maxAsked = 2

	// wait is how long the next records of a topic may take to come.
	wait = 5 * time.Second
)

// Config says what a Desk is about.
type Config struct {
	// Options are those of a client: how to reach Kafka, and how to produce.
	Options []kgo.Opt

	// Topics are the dead-letter topics, each once.
	Topics []string

	// Inputs are the topics that dead letters may go back to. A header names where each came from, and whoever may
	// write to a dead-letter topic could otherwise have the node write to any other.
	Inputs []string
}

// Desk answers questions about dead letters.
type Desk struct {
	config Config
	slots  chan struct{}
}

// New returns a Desk.
func New(config Config) *Desk { return &Desk{config, make(chan struct{}, maxAsked)} }

// enter waits until few enough others ask.
func (d *Desk) enter(ctx context.Context) (leave func(), err error) {
	select {
	case d.slots <- struct{}{}:
		return func() { <-d.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // whoever asked has gone
	}
}

// Topics returns the dead-letter topics.
func (d *Desk) Topics() []string { return d.config.Topics }

// RequestError is about a request that makes no sense.
type RequestError struct{ Sentence string }

// Error returns the sentence.
func (e *RequestError) Error() string { return e.Sentence }

// List are dead letters, the latest first.
type List struct {
	Letters []Letter
	Reasons map[string]int // of all that match, also of those that are not shown
	Matched int
	Looked  int  // how many records were looked at
	Older   bool // there are older ones, which were not looked at
}

// span is a stretch of a partition: from the first offset to before the last.
type span struct {
	From int64 `json:"from"`
	End  int64 `json:"end"`
}

// window is a stretch of a topic, by partition.
type window map[int32]span

// List returns the latest dead letters of a topic that a filter means.
func (d *Desk) List(ctx context.Context, filter Filter) (List, error) {
	list := List{Reasons: map[string]int{}}
	leave, err := d.enter(ctx)
	if err != nil {
		return list, err
	}
	defer leave()
	client, all, err := d.open(ctx, filter.Topic)
	if err != nil {
		return list, err
	}
	defer client.Close()
	latest := window{}
	for partition, s := range all {
		from := max(s.From, s.End-max(1, int64(listed/len(all))))
		list.Older = list.Older || from > s.From
		latest[partition] = span{from, s.End}
	}
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err = walk(limited, client, filter.Topic, latest, func(r *kgo.Record) (more bool) {
		list.Looked++
		if l := Read(r); filter.matches(&l) {
			list.Matched++
			list.Reasons[l.Reason]++
			list.Letters = append(list.Letters, l)
		}
		return true
	})
	if limited.Err() != nil && ctx.Err() == nil && list.Looked > 0 {
		list.Older, err = true, nil
	}
	slices.SortFunc(list.Letters, func(a, b Letter) int {
		return cmp.Or(b.Written.Compare(a.Written), cmp.Compare(b.Partition, a.Partition),
			cmp.Compare(b.Offset, a.Offset))
	})
	list.Letters = list.Letters[:min(len(list.Letters), listLimit)]
	return list, err
}

// Request asks to put dead letters back, one page of them.
type Request struct {
	Filter

	DryRun bool // count, and write nothing
	Cursor string
}

// Replayed is what has become of the dead letters of one page.
type Replayed struct {
	Matched int
	Back    map[string]int // how many go back, by topic
	Again   map[string]int // how many of these are most likely refused again, by reason
	LeftOut map[string]int // how many do not go back, by why
	Next    string         // the cursor of the next page; empty when this is the last
	Window  string         // the cursor of the first page, for a replay of what was counted, and of nothing later
}

// PartlyError is a page of which some was written, and nobody knows about the rest.
type PartlyError struct {
	Written, Unknown int
	Cause            error
}

// Error returns the sentence.
func (e *PartlyError) Error() string {
	return fmt.Sprintf("put back on this page: %d; not known whether they are put back: %d (%v). What is put back "+
		"twice fires twice, unless its first copy still waits: look at the input topic before you repeat it",
		e.Written, e.Unknown, e.Cause)
}

// Unwrap returns the cause.
func (e *PartlyError) Unwrap() error { return e.Cause }

// Replay puts one page of dead letters back on the topics that they came from, with their own key, value and headers,
// or counts them. They stay on their topic.
func (d *Desk) Replay(ctx context.Context, request Request) (Replayed, error) {
	done := Replayed{Back: map[string]int{}, Again: map[string]int{}, LeftOut: map[string]int{}}
	leave, err := d.enter(ctx)
	if err != nil {
		return done, err
	}
	defer leave()
	client, left, err := d.open(ctx, request.Topic)
	if err != nil {
		return done, err
	}
	defer client.Close()
	if request.Cursor != "" {
		if left, err = parse(request.Cursor); err != nil {
			return done, err
		}
	}
	done.Window = left.String()
	var records []*kgo.Record
	looked, now := 0, time.Now()
	rest := maps.Clone(left)
	err = walk(ctx, client, request.Topic, left, func(r *kgo.Record) (more bool) {
		rest[r.Partition] = span{r.Offset + 1, rest[r.Partition].End}
		looked++
		l := Read(r)
		if !request.matches(&l) {
			return looked < walked
		}
		done.Matched++
		if why := d.stays(&l, now); why != "" {
			done.LeftOut[why]++
			return looked < walked
		}
		done.Back[l.Source]++
		if !Repairable(l.Reason) {
			done.Again[l.Reason]++
		}
		if !request.DryRun {
			records = append(records, &kgo.Record{
				Topic: l.Source, Key: r.Key, Value: r.Value, Headers: Original(r.Headers),
			})
		}
		return looked < walked
	})
	if err != nil {
		return done, err
	}
	maps.DeleteFunc(rest, func(_ int32, s span) bool { return looked < walked || s.From >= s.End })
	if len(rest) > 0 {
		done.Next = rest.String()
	}
	return done, write(ctx, client, records)
}

// stays says why a dead letter does not go back; "" if it does.
func (d *Desk) stays(l *Letter, now time.Time) string {
	switch {
	case l.Reason == "":
		return "they are no dead letters of Chronos"
	case l.Cut != "":
		return "they were cut, and have not all of the record"
	case l.Source == "":
		return "nobody knows which topic they came from"
	case !slices.Contains(d.config.Inputs, l.Source):
		return "they came from a topic that is no input of this node"
	case !l.notAfter.IsZero() && !l.notAfter.After(now):
		return "their chronosNotAfter has passed, so that they would expire"
	}
	return ""
}

func write(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	partly := &PartlyError{}
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err == nil {
			partly.Written++
			continue
		}
		partly.Unknown++
		partly.Cause = cmp.Or(partly.Cause, result.Err)
	}
	if partly.Unknown > 0 {
		return partly
	}
	return nil
}

// open returns a client, and all that a topic has.
func (d *Desk) open(ctx context.Context, topic string) (*kgo.Client, window, error) {
	if !slices.Contains(d.config.Topics, topic) {
		return nil, nil, &RequestError{fmt.Sprintf("%q is no dead-letter topic of this node: it has %s", topic,
			cmp.Or(strings.Join(d.config.Topics, ", "), "none"))}
	}
	client, err := kgo.NewClient(append(slices.Clone(d.config.Options), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(1<<20),
		kgo.UnknownTopicRetries(1), kgo.RecordDeliveryTimeout(2*wait))...)
	if err != nil {
		return nil, nil, fmt.Errorf("configure a client of Kafka: %w", err)
	}
	all, err := bounds(ctx, client, topic)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return client, all, nil
}

// bounds returns from where to where the partitions of a topic go.
func bounds(ctx context.Context, client *kgo.Client, topic string) (window, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	cluster := kadm.NewClient(client)
	last, err := cluster.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = last.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, &RequestError{"topic " + topic + " does not exist: create it, or take it out of the routes"}
	}
	if err != nil {
		return nil, fmt.Errorf("look up where topic %s ends: %w", topic, err)
	}
	first, err := cluster.ListStartOffsets(ctx, topic)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("look up where topic %s begins: %w", topic, err)
	}
	all := window{}
	for partition, end := range last[topic] {
		if from := first[topic][partition].Offset; from < end.Offset {
			all[partition] = span{from, end.Offset}
		}
	}
	return all, nil
}

// walk calls a function with each record of a window, until it wants no more. Marks at the ends of transactions are no
// records, but can be the last that there is.
func walk(ctx context.Context, client *kgo.Client, topic string, all window, each func(*kgo.Record) (more bool)) error {
	left, from := maps.Clone(all), map[int32]kgo.Offset{}
	for partition, s := range all {
		from[partition] = kgo.NewOffset().At(s.From)
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(left) > 0 {
		limited, cancel := context.WithTimeout(ctx, wait)
		fetches := client.PollRecords(limited, walked)
		ended := limited.Err()
		cancel()
		switch failed := fetches.Errors(); {
		case ctx.Err() != nil:
			return ctx.Err() //nolint:wrapcheck // whoever asked has gone
		case ended != nil && fetches.NumRecords() == 0:
			return fmt.Errorf("read topic %s: nothing has come for %v", topic, wait)
		case ended == nil && len(failed) > 0:
			return fmt.Errorf("read topic %s: %w", topic, failed[0].Err)
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			s, wanted := left[r.Partition]
			if !wanted {
				continue
			}
			if r.Offset+1 >= s.End {
				delete(left, r.Partition)
			}
			if r.Offset < s.End && !r.Attrs.IsControl() && !each(r) {
				return nil
			}
		}
	}
	return nil
}

// String returns the window as a cursor.
func (w window) String() string {
	text, err := json.Marshal(w)
	if err != nil {
		return "" // numbers can be written
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parse reads a cursor.
func parse(cursor string) (w window, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	for _, s := range w {
		if s.From < 0 || s.End < s.From {
			err = errors.New("its offsets make no sense")
		}
	}
	if err != nil {
		return nil, &RequestError{"the cursor is none that an answer has given"}
	}
	return w, nil
}
