package brokertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/node"
)

func groupCases() []testCase {
	return []testCase{
		{"group/shares partitions, and a member that closes leaves its own to others", groupShares},
		{"group/keeps the partitions of a batch until the next poll", groupHolds},
		{"group/goes on while one member holds a batch", groupCommitsWhileWaiting},
		{"group/does not wait for a member that polled nothing", groupDoesNotWait},
		{"leave/gives the partitions to a peer at once", leaveHandsOver},
		{"leave/commits nothing, and the next poll joins again", leavePollsAgain},
		{"leave/lets a commit that comes too late pass", leaveCommit},
	}
}

// member polls and commits in a loop, as a node does, and takes note of what it polled.
type member struct {
	broker *consumer

	mu   sync.Mutex
	seen []node.Record
	err  error
	stop chan struct{}
	done sync.WaitGroup
}

func newMember(t *testing.T, env Environment, options SourceOptions) *member {
	m := &member{broker: env.open(t, options), stop: make(chan struct{})}
	m.done.Go(func() {
		for {
			select {
			case <-m.stop:
				return
			default:
			}
			records, err := m.broker.Poll(t.Context())
			if err == nil && len(records) > 0 {
				_ = m.broker.Commit(t.Context(), records) // may take longer while the group rebalances
			}
			m.mu.Lock()
			m.seen = append(m.seen, records...)
			if err != nil {
				m.err = err
			}
			m.mu.Unlock()
		}
	})
	t.Cleanup(func() { m.quit() })
	return m
}

// quit ends the loop; the Broker stays in the group.
func (m *member) quit() {
	m.mu.Lock()
	select {
	case <-m.stop:
	default:
		close(m.stop)
	}
	m.mu.Unlock()
	m.done.Wait()
}

func (m *member) polled(t *testing.T) []node.Record {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		t.Fatal(m.err)
	}
	return slices.Clone(m.seen)
}

// Two members end up with partitions each; when one closes, the other goes on with all of them. Every record is
// delivered, and none twice, because all of it is voluntary.
func groupShares(t *testing.T, env Environment) {
	const partitions = 4
	topic := env.Cluster.Topic(t, partitions)
	options := SourceOptions{Group: unique("group"), Inputs: []string{topic}}
	first, second := newMember(t, env, options), newMember(t, env, options)
	produced := 0
	feed := func() {
		for p := range int32(partitions) {
			env.Cluster.Produce(t, node.Record{Topic: topic, Partition: p, Value: fmt.Append(nil, produced)})
			produced++
		}
	}
	owned := func(m *member, since int) int {
		parts := make(map[int32]bool)
		for _, r := range m.polled(t)[since:] {
			parts[r.Partition] = true
		}
		return len(parts)
	}
	await(t, "both members get records", func() bool {
		feed()
		return len(first.polled(t)) > 0 && len(second.polled(t)) > 0
	})
	first.quit()
	closeNow(t, first.broker)
	since := len(second.polled(t))
	await(t, "the member that is left gets records of all partitions", func() bool {
		feed()
		return owned(second, since) == partitions
	})
	all := func() []node.Record { return append(first.polled(t), second.polled(t)...) }
	await(t, "all records are delivered", func() bool { return len(all()) >= produced })
	second.quit()
	seen := make(map[string]bool)
	for _, r := range all() {
		if seen[position(r)] {
			t.Errorf("%s was delivered twice", position(r))
		}
		seen[position(r)] = true
	}
	if len(seen) != produced {
		t.Errorf("%d records were delivered of %d", len(seen), produced)
	}
}

// A member that has polled a batch keeps its partitions while a second one asks for some. What it has committed by the
// time that it polls again is not delivered again.
func groupHolds(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 2), unique("group")
	options := SourceOptions{Group: group, Inputs: []string{topic}}
	env.Cluster.Produce(t,
		node.Record{Topic: topic, Partition: 0, Value: []byte("a")},
		node.Record{Topic: topic, Partition: 1, Value: []byte("b")})
	first := env.open(t, options)
	batch := pollWhole(t, first, 2)

	second := newMember(t, env, options)
	await(t, "the second member asks to join", func() bool {
		state, _ := env.Cluster.GroupState(t, group)
		return state == "PreparingRebalance"
	})
	env.Cluster.Produce(t,
		node.Record{Topic: topic, Partition: 0, Value: []byte("c")},
		node.Record{Topic: topic, Partition: 1, Value: []byte("d")})
	// A heartbeat or two, and the rebalance is still waiting: nothing else can be seen of it.
	watch(t, 2*time.Second, func() {
		if got := second.polled(t); len(got) > 0 {
			t.Fatalf("%s moved while its batch was held", position(got[0]))
		}
	})
	commit(t, first, batch)
	if got := env.Cluster.Committed(t, group, topic); got[0] != 1 || got[1] != 1 {
		t.Fatalf("committed %v while the group waits, want 1 and 1", got)
	}
	var own []node.Record
	await(t, "the second member gets a partition", func() bool {
		records := poll(t, first)
		commit(t, first, records)
		own = append(own, records...)
		return len(own)+len(second.polled(t)) == 2 && len(second.polled(t)) > 0 ||
			feedOne(t, env, topic, second)
	})
	for _, r := range append(own, second.polled(t)...) {
		if v := string(r.Value); v == "a" || v == "b" {
			t.Errorf("%s was delivered again after it was committed", v)
		}
	}
}

// feedOne appends a record to each of two partitions until the member has seen one, and reports whether it has.
func feedOne(t *testing.T, env Environment, topic string, m *member) bool {
	t.Helper()
	if len(m.polled(t)) > 0 {
		return true
	}
	env.Cluster.Produce(t,
		node.Record{Topic: topic, Partition: 0, Value: []byte("more")},
		node.Record{Topic: topic, Partition: 1, Value: []byte("more")})
	return false
}

// While a member holds a batch and the group waits for it, it can commit, again and again.
func groupCommitsWhileWaiting(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	options := SourceOptions{Group: group, Inputs: []string{topic}}
	env.Cluster.Produce(t, texts(topic, "text", 20)...)
	first := env.open(t, options)
	batch := pollWhole(t, first, 20)
	newMember(t, env, options)
	await(t, "the second member asks to join", func() bool {
		state, _ := env.Cluster.GroupState(t, group)
		return state == "PreparingRebalance"
	})
	for i := range batch {
		commit(t, first, batch[:i+1])
	}
	if got := env.Cluster.Committed(t, group, topic); got[0] != 20 {
		t.Fatalf("committed %v, want 20", got)
	}
}

// A member that has polled nothing, and is busy elsewhere, is in nobody's way: a second one gets a partition.
func groupDoesNotWait(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 2)
	options := SourceOptions{Group: unique("group"), Inputs: []string{topic}}
	first := env.open(t, options)
	for range 2 { // which joins it to the group
		if records := poll(t, first); len(records) > 0 {
			t.Fatalf("polled %d records of an empty topic", len(records))
		}
	}
	second := newMember(t, env, options)
	await(t, "the second member gets records", func() bool { return feedOne(t, env, topic, second) })
}

// watch calls check for a while, because there is no event to wait for: something must not happen.
func watch(t *testing.T, d time.Duration, check func()) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(d); ; {
		check()
		select {
		case <-ticker.C:
		case <-end:
			return
		}
	}
}

// A node that cannot store leaves, so that a peer goes on with its partitions: with the batch in hand too, which was
// not committed. That takes no session timeout.
func leaveHandsOver(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	options := SourceOptions{Group: unique("group"), Inputs: []string{topic}}
	env.Cluster.Produce(t, texts(topic, "text", 3)...)
	first := env.open(t, options)
	pollWhole(t, first, 3)
	second := env.open(t, options)
	start := time.Now()
	leave(t, first)
	if got := values(pollN(t, second, 3)); got[0] != "text-0" {
		t.Fatalf("the peer polled %q, want all of the batch", got)
	}
	t.Logf("the peer had the batch after %v", time.Since(start).Round(time.Millisecond))
}

func leavePollsAgain(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 3)...)
	b := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	leave(t, b) // before it has joined
	for range 2 {
		if got := values(pollN(t, b, 3)); got[0] != "text-0" {
			t.Fatalf("polled %q, want all", got)
		}
		leave(t, b)
		if _, members := env.Cluster.GroupState(t, group); members != 0 {
			t.Fatalf("the group has %d members after its only one has left", members)
		}
		if got := env.Cluster.Committed(t, group, topic); len(got) > 0 {
			t.Fatalf("leaving committed %v", got)
		}
		leave(t, b) // twice
	}
	batch := pollWhole(t, b, 3)
	commit(t, b, batch)
	if got := env.Cluster.Committed(t, group, topic); got[0] != 3 {
		t.Fatalf("committed %v after joining again, want 3", got)
	}
}

// After leaving, all partitions are lost: a commit leaves them out.
func leaveCommit(t *testing.T, env Environment) {
	topic, group := env.Cluster.Topic(t, 1), unique("group")
	env.Cluster.Produce(t, texts(topic, "text", 3)...)
	b := env.open(t, SourceOptions{Group: group, Inputs: []string{topic}})
	batch := pollWhole(t, b, 3)
	leave(t, b)
	commit(t, b, batch)
	if got := env.Cluster.Committed(t, group, topic); len(got) > 0 {
		t.Fatalf("committed %v after leaving", got)
	}
}
