package brokertest

import (
	"maps"
	"slices"
	"testing"

	"chronos/node"
)

func commitCases() []testCase {
	return []testCase{
		{"commit/stores what it is given and nothing else", commitExactly},
		{"commit/stores the epoch", commitEpoch},
		{"commit/of nothing stores nothing", commitNothing},
		{"commit/can be repeated", commitRepeated},
		{"commit/is told with the assignment", commitRestart},
		{"commit/left out has a restart begin again", commitLeftOut},
	}
}

// Records of one poll are committed in part: of each partition the highest, in whatever order they are given.
func commitExactly(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 3), unique("group")
	var records []node.Record
	for range 10 {
		for p := range int32(3) {
			records = append(records, node.Record{Topic: topic, Partition: p, Value: []byte("v")})
		}
	}
	env.Cluster.Produce(t, records...)
	b := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	batch := pollWhole(t, b, len(records))
	if got := env.Cluster.Committed(t, group, topic); len(got) > 0 {
		t.Fatalf("committed by itself: %v", got)
	}
	var some []node.Record
	for _, r := range batch {
		if r.Partition == 0 && r.Offset <= 4 || r.Partition == 2 && r.Offset <= 6 {
			some = append(some, r)
		}
	}
	slices.Reverse(some)
	commit(t, b, some)
	want := map[int32]int64{0: 5, 2: 7}
	if got := env.Cluster.Committed(t, group, topic); !maps.Equal(got, want) {
		t.Fatalf("committed %v, want %v", got, want)
	}
	commit(t, b, batch)
	closeNow(t, b)
	want = map[int32]int64{0: 10, 1: 10, 2: 10}
	if got := env.Cluster.Committed(t, group, topic); !maps.Equal(got, want) {
		t.Fatalf("committed %v, want %v", got, want)
	}
}

// With the epoch of the leader that a record was read from, whoever goes on there learns of records that were lost.
func commitEpoch(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 2)...)
	b := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	batch := pollWhole(t, b, 2)
	commit(t, b, batch)
	offsets := env.Cluster.committed(t, group)
	if len(offsets) != 1 || offsets[0].At != 2 || offsets[0].LeaderEpoch != batch[1].LeaderEpoch {
		t.Fatalf("committed %+v, want offset 2 in epoch %d", offsets, batch[1].LeaderEpoch)
	}
}

func commitNothing(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 2)...)
	b := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	commit(t, b, nil) // before the first poll
	pollWhole(t, b, 2)
	commit(t, b, nil)
	closeNow(t, b)
	if got := env.Cluster.Committed(t, group, topic); len(got) > 0 {
		t.Fatalf("committed %v", got)
	}
}

func commitRepeated(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 5)...)
	b := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	batch := pollWhole(t, b, 5)
	for range 3 {
		commit(t, b, batch)
	}
	if got := env.Cluster.Committed(t, group, topic); got[0] != 5 {
		t.Fatalf("committed %v, want 5", got)
	}
}

func commitRestart(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 5)...)
	first := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	batch := pollWhole(t, first, 5)
	commit(t, first, batch[:3])
	closeNow(t, first)
	second := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	if got, want := values(pollN(t, second, 2)), []string{"text-3", "text-4"}; !slices.Equal(got, want) {
		t.Fatalf("after a commit up to text-2 and a restart: polled %q, want %q", got, want)
	}
}

func commitLeftOut(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 3)...)
	for range 2 {
		b := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
		if got := values(pollN(t, b, 3)); got[0] != "text-0" {
			t.Fatalf("polled %q, want all", got)
		}
		closeNow(t, b)
	}
}
