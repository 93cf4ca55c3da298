package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/node"
)

func startCases() []testCase {
	return []testCase{
		{"start/partitions are assigned with what they hold, and not read before", startWaits},
		{"start/goes on from another place", startElsewhere},
		{"start/forgets what was fetched before", startForgets},
		{"start/leaves out what is not ours", startForeign},
		{"start/some partitions before others", startSome},
		{"start/records of control pass positions to the end", startControl},
		{"start/says what retention took", startLost},
		{"start/sees partitions that are added", startAdded},
		{"extents/are those of all partitions", extentsAll},
	}
}

// source opens a Source for a case and closes it at the end.
func (env Environment) source(t testing.TB, options SourceOptions) Source {
	t.Helper()
	if options.Group == "" {
		options.Group = unique("group")
	}
	source := env.OpenSource(t, options)
	t.Cleanup(func() { _ = source.Close(context.Background()) })
	return source
}

// next polls until there is a batch of which done is true.
func next(t *testing.T, s node.Source, what string, done func(node.Batch) bool) node.Batch {
	t.Helper()
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		batch, err := s.Poll(t.Context())
		if err != nil {
			last = err // a machine that is busy with other cases answers late
		} else if done(batch) {
			return batch
		}
	}
	t.Fatalf("still not after %v: %s; the last error was: %v", patience, what, last)
	return node.Batch{}
}

// assigned polls until n partitions were assigned, and returns them.
func assigned(t *testing.T, s node.Source, n int) []node.Assignment {
	t.Helper()
	var all []node.Assignment
	next(t, s, fmt.Sprintf("%d partitions assigned", n), func(b node.Batch) bool {
		all = append(all, b.Assigned...)
		return len(all) >= n
	})
	return all
}

// start has partitions be read from an offset.
func start(t *testing.T, s node.Source, offset int64, assigned ...node.Assignment) {
	t.Helper()
	var places []node.Place
	for _, a := range assigned {
		places = append(places, node.Place{
			Partition: a.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: offset},
		})
	}
	if err := s.Start(t.Context(), places); err != nil {
		t.Fatalf("start: %v", err)
	}
}

// firstOf polls until there are records, and returns the offset of the first one.
func firstOf(t *testing.T, s node.Source) int64 {
	t.Helper()
	return next(t, s, "records", func(b node.Batch) bool { return len(b.Records) > 0 }).Records[0].Offset
}

func startWaits(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 3)...)
	first := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	commit(t, first, pollWhole(t, first, 3)[:2])
	closeNow(t, first)

	s := env.source(t, SourceOptions{Group: group, Inputs: []string{topic}})
	got := assigned(t, s, 1)[0]
	if got.Topic != topic || got.First != 0 || got.End != 3 || got.Committed.Offset != 2 || got.Committed.Epoch < 0 {
		t.Fatalf("assigned %+v, want offsets 0 to 3 of which 2 are committed", got)
	}
	watch(t, 2*time.Second, func() {
		if batch, err := s.Poll(t.Context()); len(batch.Records) > 0 || err != nil {
			t.Fatalf("polled %d records before start: %v", len(batch.Records), err)
		}
	})
	start(t, s, 1, got)
	if offset := firstOf(t, s); offset != 1 {
		t.Fatalf("started at 1, the first record has offset %d", offset)
	}
}

func startElsewhere(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	produced := env.Cluster.Produce(t, texts(topic, "text", 10)...)
	s := env.source(t, SourceOptions{Inputs: []string{topic}})
	partition := assigned(t, s, 1)[0]
	start(t, s, 8, partition)
	for _, offset := range []int64{8, 3, 3, 9, 0, 5} {
		start(t, s, offset, partition)
		var got []int64
		next(t, s, "all records from there on", func(b node.Batch) bool {
			for _, r := range b.Records {
				got = append(got, r.Offset)
			}
			return len(got) >= len(produced)-int(offset)
		})
		for i, o := range got {
			if o != offset+int64(i) {
				t.Fatalf("started at %d: polled offsets %v", offset, got)
			}
		}
	}
	// With the epoch that the record before it has.
	start(t, s, 4, partition)
	record := next(t, s, "records", func(b node.Batch) bool { return len(b.Records) > 0 }).Records[0]
	place := node.Place{
		Partition: partition.Partition, Position: node.Position{Epoch: record.LeaderEpoch, Offset: 7},
	}
	if err := s.Start(t.Context(), []node.Place{place}); err != nil {
		t.Fatal(err)
	}
	if offset := firstOf(t, s); offset != 7 {
		t.Fatalf("started at 7, the first record has offset %d", offset)
	}
}

// What comes after Start is what was asked for, from the first poll on, however much was fetched before.
func startForgets(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	env.Cluster.Produce(t, texts(topic, "text", 3000)...)
	s := env.source(t, SourceOptions{Inputs: []string{topic}})
	partition := assigned(t, s, 1)[0]
	start(t, s, 0, partition)
	for range 3 {
		firstOf(t, s)
		start(t, s, 100, partition)
		if offset := firstOf(t, s); offset != 100 {
			t.Fatalf("started at 100, the next record has offset %d", offset)
		}
	}
}

func startForeign(t *testing.T, env Environment) {
	topic, other := env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 1)
	env.Cluster.Produce(t, texts(topic, "text", 1)...)
	s := env.source(t, SourceOptions{Inputs: []string{topic}})
	partition := assigned(t, s, 1)[0]
	foreign, old := partition, partition
	foreign.Topic = other
	old.TopicID[0]++ // a topic of the same name that was deleted
	start(t, s, 0, foreign, old)
	watch(t, time.Second, func() {
		if batch, err := s.Poll(t.Context()); len(batch.Records) > 0 || err != nil {
			t.Fatalf("polled %d records of a partition that was not started: %v", len(batch.Records), err)
		}
	})
	start(t, s, 0, foreign, partition)
	firstOf(t, s)
}

func startSome(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 3)
	for p := range int32(3) {
		env.Cluster.Produce(t, node.Record{Topic: topic, Partition: p, Value: fmt.Append(nil, p)})
	}
	s := env.source(t, SourceOptions{Inputs: []string{topic}})
	for _, partition := range assigned(t, s, 3) {
		start(t, s, 0, partition)
		batch := next(t, s, "a record", func(b node.Batch) bool { return len(b.Records) > 0 })
		if len(batch.Records) != 1 || batch.Records[0].Partition != partition.Number {
			t.Fatalf("started partition %d: polled %q", partition.Number, values(batch.Records))
		}
	}
}

// A transaction ends with a record of its own, which a position passes: or the end of the log would never be reached.
func startControl(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	env.Cluster.Transact(t, true, texts(topic, "committed", 2)...)
	env.Cluster.Transact(t, false, texts(topic, "aborted", 2)...)
	s := env.source(t, SourceOptions{Inputs: []string{topic}})
	partition := assigned(t, s, 1)[0]
	start(t, s, 0, partition)
	var got []string
	last := next(t, s, "the end of the log", func(b node.Batch) bool {
		for _, r := range b.Records {
			text := "control"
			if !r.Control {
				text = string(r.Value)
			} else if len(r.Key)+len(r.Value)+len(r.Headers) > 0 {
				t.Errorf("a record of control has a payload")
			}
			got = append(got, text)
		}
		return len(b.Records) > 0 && b.Records[len(b.Records)-1].Offset+1 >= partition.End
	})
	if want := []string{"committed-0", "committed-1", "control", "control"}; !slices.Equal(got, want) {
		t.Errorf("polled %q, want %q", got, want)
	}
	if end := last.Records[len(last.Records)-1].Offset + 1; end != partition.End {
		t.Errorf("the last record ends at %d, the log at %d", end, partition.End)
	}
}

func startLost(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	env.Cluster.Produce(t, texts(topic, "text", 10)...)
	s := env.source(t, SourceOptions{Inputs: []string{topic}})
	partition := assigned(t, s, 1)[0]
	env.Cluster.DeleteRecords(t, topic, 0, 4)
	for _, from := range []int64{1, 2} { // once where it was assigned, once where it is read
		start(t, s, from, partition)
		var lost []node.Loss
		batch := next(t, s, "records", func(b node.Batch) bool {
			lost = append(lost, b.Lost...)
			return len(b.Records) > 0
		})
		want := node.Loss{Partition: partition.Partition, From: from, To: 4}
		if !slices.Equal(lost, []node.Loss{want}) {
			t.Fatalf("lost %+v, want %+v", lost, want)
		}
		if batch.Records[0].Offset != 4 {
			t.Fatalf("the first record has offset %d, want 4", batch.Records[0].Offset)
		}
	}
}

func startAdded(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	env.Cluster.Produce(t, texts(topic, "text", 1)...)
	pollN(t, b, 1)
	env.Cluster.AddPartitions(t, topic, 3)
	fresh := env.Cluster.Fresh(t)
	for p := range int32(3) {
		fresh.Produce(t, node.Record{Topic: topic, Partition: p, Value: []byte("more")})
	}
	pollN(t, b, 3)
}

func extentsAll(t *testing.T, env Environment) {
	topics := []string{env.Cluster.Topic(t, 2), env.Cluster.Topic(t, 1)}
	env.Cluster.Produce(t, node.Record{Topic: topics[0], Partition: 1, Value: []byte("text")})
	env.Cluster.Produce(t, texts(topics[1], "text", 5)...)
	env.Cluster.DeleteRecords(t, topics[1], 0, 3)
	s := env.source(t, SourceOptions{Inputs: topics})
	got, err := s.Extents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]int64{topics[0] + "/0": {0, 0}, topics[0] + "/1": {0, 1}, topics[1] + "/0": {3, 5}}
	for _, e := range got {
		name := fmt.Sprintf("%s/%d", e.Topic, e.Number)
		if w, expected := want[name]; !expected || w != [2]int64{e.First, e.End} || e.TopicID.String() == "" {
			t.Errorf("%s holds %d to %d, want %v", name, e.First, e.End, w)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
