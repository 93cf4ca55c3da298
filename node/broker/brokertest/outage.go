package brokertest

import (
	"slices"
	"testing"
	"time"

	"chronos/node"
)

func networkCases() []testCase {
	return []testCase{
		{"outage/publish keeps its time limit on a frozen network", publishFrozen},
		{"outage/publish keeps its time limit on a broken network, and sends nothing later", publishBroken},
		{"outage/publishing and polling resume soon", outageOver},
		{"outage/poll says so", pollOutage},
		{"outage/leave and close are bounded", leaveFrozen},
		{"zombie/does not undo what its successor has committed", zombieCommit},
		{"zombie/begins again where the group is", zombieBeginsAgain},
	}
}

const shortPublishTimeout = 1500 * time.Millisecond

// expectInTime expects that a Publish that began at start has kept its limit, but not by giving up at once. A client
// without a limit waits for 30 s and longer; a machine that is busy with other tests wakes a client some seconds late.
func expectInTime(t *testing.T, start time.Time) {
	t.Helper()
	took := time.Since(start)
	if took > 5*shortPublishTimeout || took < shortPublishTimeout/2 {
		t.Errorf("publish took %v with a limit of %v", took, shortPublishTimeout)
	}
}

// expectNothing expects that a Publish that began at start has kept its limit, and has published nothing: what it
// knows not to have sent it may say so.
func expectNothing(t *testing.T, start time.Time, errs []error, n int) {
	t.Helper()
	if took := time.Since(start); took > 5*shortPublishTimeout {
		t.Errorf("publish took %v with a limit of %v", took, shortPublishTimeout)
	}
	if len(errs) != n {
		t.Fatalf("%d results for %d records", len(errs), n)
	}
	for i, err := range errs {
		if err == nil || node.KindOf(err).Permanent() {
			t.Fatalf("record %d: %v, want that it was not sent, or an unknown outcome", i, err)
		}
	}
}

// connect publishes before-0 until that works: the first call connects, and a busy machine may take longer than the
// short limit of the cases here.
func connect(t *testing.T, b Sink, topic string) {
	t.Helper()
	await(t, "publishing works", func() bool {
		return b.Publish(t.Context(), texts(topic, "before", 1))[0] == nil
	})
}

func publishFrozen(t *testing.T, env Environment) {
	topic, fresh := env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 1)
	network := NewNetwork(t)
	b := env.publisher(t, SinkOptions{PublishTimeout: shortPublishTimeout, Dial: network.Dial})
	connect(t, b, topic)
	network.Freeze()
	for round := range 2 {
		start := time.Now()
		records := append(texts(topic, "lost", 100), texts(fresh, "lost", 100)...)
		records = append(records, node.Record{Topic: topic, Value: noise(2 << 20)}) // too large, by the way
		errs := b.Publish(t.Context(), records)
		if round == 0 {
			expectInTime(t, start)
			expectUnknown(t, errs, 201)
		} else {
			expectNothing(t, start, errs, 201)
		}
	}
	network.Heal()
	await(t, "publishing works again", func() bool {
		return b.Publish(t.Context(), texts(topic, "after", 1))[0] == nil
	})
}

func publishBroken(t *testing.T, env Environment) {
	topic, fresh := env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 1)
	network := NewNetwork(t)
	b := env.publisher(t, SinkOptions{PublishTimeout: shortPublishTimeout, Dial: network.Dial})
	connect(t, b, topic)
	network.Cut()
	for round := range 2 {
		start := time.Now()
		errs := b.Publish(t.Context(), append(texts(topic, "lost", 100), texts(fresh, "lost", 100)...))
		if round == 0 {
			expectInTime(t, start)
			expectUnknown(t, errs, 200)
		} else {
			expectNothing(t, start, errs, 200)
		}
	}
	network.Heal()
	// What was left in the client would come before this, because it goes to the same partition.
	for _, topic := range []string{topic, fresh} {
		await(t, "publishing works again", func() bool {
			return b.Publish(t.Context(), texts(topic, "after", 1))[0] == nil
		})
		for _, value := range values(env.Cluster.Read(t, topic)) {
			if value != "before-0" && value != "after-0" {
				t.Fatalf("%s was sent after its time limit", value)
			}
		}
	}
}

// resumption is how soon a node is to be at work again after an outage. It takes half a second or so, which the case
// logs; on a machine that is busy with other cases it took 6.6 s. A client left to its defaults sits out the half
// minute of a request that nobody will answer.
const resumption = 20 * time.Second

func outageOver(t *testing.T, env Environment) {
	topic, input := env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 1)
	for name, breakNetwork := range map[string]func(*Network){"cut": (*Network).Cut, "frozen": (*Network).Freeze} {
		network := NewNetwork(t)
		group := unique("group")
		b := env.open(t, SourceOptions{Group: group, Inputs: []string{input}, Dial: network.Dial})
		sink := env.publisher(t, SinkOptions{PublishTimeout: shortPublishTimeout, Dial: network.Dial})
		connect(t, sink, topic)
		env.Cluster.Produce(t, texts(input, "before", 1)...)
		commit(t, b, pollBatch(t, b))

		breakNetwork(network)
		expectUnknown(t, sink.Publish(t.Context(), texts(topic, "during", 1)), 1)
		env.Cluster.Produce(t, texts(input, "during", 1)...)
		for range 2 {
			if records, _ := b.Poll(t.Context()); len(records) > 0 {
				t.Fatalf("polled %q over a network that is %s", values(records), name)
			}
		}
		network.Heal()
		start := time.Now()
		await(t, "publishing works again", func() bool {
			return sink.Publish(t.Context(), texts(topic, "after", 1))[0] == nil
		})
		published := time.Since(start)
		var got []node.Record
		await(t, "polling works again", func() bool {
			records, _ := b.Poll(t.Context())
			got = append(got, records...)
			return slices.Contains(values(got), "during-0")
		})
		polled := time.Since(start)
		t.Logf("%s: published after %v, polled after %v", name,
			published.Round(time.Millisecond), polled.Round(time.Millisecond))
		if published > resumption || polled > resumption {
			t.Errorf("%s: published after %v, polled after %v, want less than %v", name, published, polled, resumption)
		}
		commit(t, b, got)
		closeNow(t, b)
		if committed := env.Cluster.Committed(t, group, input)[0]; committed != got[len(got)-1].Offset+1 {
			t.Errorf("%s: committed %d, want %d", name, committed, got[len(got)-1].Offset+1)
		}
	}
}

// A node that nobody answers says so by an error of Poll: otherwise an outage and an empty topic look the same.
func pollOutage(t *testing.T, env Environment) {
	input := env.Cluster.Topic(t, 1)
	for _, breakNetwork := range []func(*Network){(*Network).Cut, (*Network).Freeze} {
		network := NewNetwork(t)
		b := env.open(t, SourceOptions{Inputs: []string{input}, Dial: network.Dial})
		env.Cluster.Produce(t, texts(input, "text", 1)...)
		commit(t, b, pollBatch(t, b))
		breakNetwork(network)
		await(t, "poll returns an error", func() bool {
			_, err := b.Poll(t.Context())
			return err != nil
		})
		network.Heal()
		await(t, "poll returns no error any more", func() bool {
			_, err := b.Poll(t.Context())
			return err == nil
		})
	}
}

func leaveFrozen(t *testing.T, env Environment) {
	input := env.Cluster.Topic(t, 1)
	for _, breakNetwork := range []func(*Network){(*Network).Cut, (*Network).Freeze} {
		network := NewNetwork(t)
		b := env.open(t, SourceOptions{Inputs: []string{input}, Dial: network.Dial})
		env.Cluster.Produce(t, texts(input, "text", 1)...)
		pollBatch(t, b) // which is held
		breakNetwork(network)
		bounded(t, "leave", func() { _ = b.Leave(t.Context()) })
		bounded(t, "poll", func() { _, _ = b.Poll(t.Context()) })
		bounded(t, "commit", func() { _ = b.Commit(t.Context(), texts(input, "text", 1)) })
		bounded(t, "leave", func() { _ = b.Leave(t.Context()) })
		bounded(t, "poll", func() { _, _ = b.Poll(t.Context()) })
		bounded(t, "close", func() { _ = b.source.Close(t.Context()) })
	}
}

// bounded expects that a call is over within seconds.
func bounded(t *testing.T, what string, call func()) {
	t.Helper()
	start := time.Now()
	call()
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("%s took %v over a network that is broken", what, took)
	}
}

// A member is cut off with a batch in hand. Its successor gets the batch and more, and commits all of it. Back
// again, the first commits its batch, which by then is none of its business: nothing happens.
func zombieCommit(t *testing.T, env Environment) {
	first, second, network, batch := evict(t, env)
	network.Heal()
	commit(t, first.broker, batch)
	if got := env.Cluster.Committed(t, first.group, first.input)[0]; got != 10 {
		t.Fatalf("committed %d after the zombie's commit, want the successor's 10", got)
	}
	// It joins again, and both go on without anything delivered twice.
	env.Cluster.Produce(t, texts(first.input, "more", 5)...)
	var got []node.Record
	await(t, "the members poll what comes next", func() bool {
		for _, b := range []*consumer{first.broker, second} {
			records := poll(t, b)
			commit(t, b, records)
			got = append(got, records...)
		}
		return len(got) >= 5
	})
	if texts := values(got); !slices.Equal(texts, values(polledTexts("more", 5))) {
		t.Fatalf("polled %q, want more-0 to more-4", texts)
	}
	if got := env.Cluster.Committed(t, first.group, first.input)[0]; got != 15 {
		t.Fatalf("committed %d, want 15", got)
	}
}

// As before, but the successor is gone again when the first comes back, so that it gets its old partition: not to go on
// from where it was, but from where the group is.
func zombieBeginsAgain(t *testing.T, env Environment) {
	first, second, network, batch := evict(t, env)
	closeNow(t, second)
	network.Heal()
	commit(t, first.broker, batch)
	if got := env.Cluster.Committed(t, first.group, first.input)[0]; got != 10 {
		t.Fatalf("committed %d after the zombie's commit, want the successor's 10", got)
	}
	env.Cluster.Produce(t, texts(first.input, "more", 5)...)
	got := values(pollUntil(t, first.broker, "the next record", func(all []node.Record) bool { return len(all) >= 5 }))
	if !slices.Equal(got, values(polledTexts("more", 5))) {
		t.Fatalf("polled %q, want more-0 to more-4", got)
	}
}

func polledTexts(prefix string, n int) []node.Record { return texts("", prefix, n) }

// evicted is a member that the group has given up.
type evicted struct {
	broker       *consumer
	group, input string
}

// evict cuts a member off that holds the first 5 records of a topic, until the group has given it up and a second
// member has polled and committed 10. The network of the first is still frozen.
func evict(t *testing.T, env Environment) (evicted, *consumer, *Network, []node.Record) {
	input, group := env.Cluster.Topic(t, 1), unique("group")
	network := NewNetwork(t)
	env.Cluster.Produce(t, texts(input, "text", 5)...)
	first := env.open(t, SourceOptions{Group: group, Inputs: []string{input}, Dial: network.Dial})
	batch := pollWhole(t, first, 5)
	network.Freeze()
	env.Cluster.Produce(t, texts(input, "later", 5)...)
	second := env.open(t, SourceOptions{Group: group, Inputs: []string{input}})
	commit(t, second, pollWhole(t, second, 10))
	return evicted{first, group, input}, second, network, batch
}
