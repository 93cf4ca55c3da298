package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/storetest"
)

// Two input topics of different sizes, each with a journal, which share an output.
const ordersIn, paymentsIn = "orders.in", "payments.in"

// journalOf is the name of the journal of an input topic.
func journalOf(input string) string { return input + ".journal" }

// inputsOf returns the partitions of the input topics: two, and one.
func inputsOf() []node.Partition {
	return []node.Partition{
		{Topic: ordersIn, TopicID: uuid.UUID{1}, Number: 0},
		{Topic: ordersIn, TopicID: uuid.UUID{1}, Number: 1},
		{Topic: paymentsIn, TopicID: uuid.UUID{2}, Number: 0},
	}
}

// newInputs returns a cluster with the journals.
func newInputs() *simulated.Cluster {
	cluster := simulated.New()
	cluster.CreateTopic(journalOf(ordersIn), 2, 0)
	cluster.CreateTopic(journalOf(paymentsIn), 1, 0)
	cluster.CreateTopic(output, 2, 0)
	return cluster
}

// inputsConfig returns the configuration of a store with these input topics, in that order.
func inputsConfig(cluster *simulated.Cluster, clock *storetest.Clock, dir string, inputs ...string) journal.Config {
	var several ledger.Several
	for _, input := range inputs {
		several = append(several, cluster.Ledger(journalOf(input), journalOf(input)))
	}
	return journal.Config{Ledger: several, Inputs: inputs, Dir: dir, Now: clock.Now}
}

// numberIn returns the number that a partition of an input topic has in the journal of a store with these inputs.
func numberIn(p node.Partition, inputs []string) int32 {
	return ledger.Number(slices.Index(inputs, p.Topic), p.Number)
}

// S24 with several input topics, in worlds that are drawn at random: three nodes own the partitions of two input topics
// in turn, or believe that they do, some of them name the topics in another order, and restart in another one, with
// their local copies or without; requests and answers get lost. Both topics have the same ids. Each message comes out
// once, whichever topic it came in through, and none that was cancelled there; what is cancelled in one topic stays in
// the other.
func TestRandomInputs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newInputWorld(t, r)
		defer w.close()
		r.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { w.check() },
			"own":     func(r *rapid.T) { _ = w.own(w.any(r), w.anywhere(r)) },
			"take":    func(r *rapid.T) { w.take(w.any(r), rapid.IntRange(1, 6).Draw(r, "records")) },
			"claim":   func(r *rapid.T) { w.claim(w.any(r), rapid.IntRange(1, 6).Draw(r, "limit")) },
			"fire":    func(r *rapid.T) { w.fire(w.any(r)) },
			"follow":  func(r *rapid.T) { journal.NewFollower(w.any(r).store, 0).Round(w.Context()) },
			"release": func(r *rapid.T) { w.release(w.any(r), w.anywhere(r)) },
			"restart": w.restart,
			"fault":   w.fault,
			"compact": func(r *rapid.T) {
				p := w.anywhere(r)
				w.cluster.Compact(journalOf(p.Topic), p.Number, false)
			},
			"tick": func(r *rapid.T) {
				w.clock.Advance(time.Duration(rapid.IntRange(1, 30).Draw(r, "seconds")) * time.Second)
			},
		})
		w.finish()
	})
}

// inputWorld is such a world.
type inputWorld struct {
	*rapid.T

	cluster *simulated.Cluster
	clock   *storetest.Clock
	dir     string
	nodes   []*inputNode
	items   map[node.Partition][]node.Item
	must    map[string]bool // the values that come out, and all that may
	may     map[string]bool
}

// inputNode is a node of it.
type inputNode struct {
	name   string
	inputs []string
	store  *journal.Store
	held   []node.Ready
}

func newInputWorld(t *testing.T, r *rapid.T) *inputWorld {
	t.Helper()
	w := &inputWorld{
		T: r, cluster: newInputs(), clock: storetest.NewClock(), dir: t.TempDir(),
		items: map[node.Partition][]node.Item{}, must: map[string]bool{}, may: map[string]bool{},
	}
	for i := range 3 {
		n := &inputNode{name: fmt.Sprint("node-", i), inputs: []string{ordersIn, paymentsIn}}
		if i == 2 {
			slices.Reverse(n.inputs)
		}
		w.nodes = append(w.nodes, n)
		w.open(n)
	}
	for i, p := range inputsOf() {
		w.write(p, byte(i))
	}
	for _, p := range inputsOf() {
		if err := w.own(w.nodes[0], p); err != nil {
			w.Fatal(err)
		}
	}
	return w
}

// write draws what stands on a partition: messages whose ids the others have as well, of which some are cancelled.
func (w *inputWorld) write(p node.Partition, which byte) {
	count := rapid.IntRange(1, 8).Draw(w.T, "messages")
	for i := range count {
		id := fmt.Sprint("m", i)
		value := fmt.Sprintf("%s of %s/%d", id, p.Topic, p.Number)
		w.may[value], w.must[value] = true, true
		w.items[p] = append(w.items[p], node.Item{
			Epoch: 1, Offset: int64(len(w.items[p])), Action: node.Schedule, Message: node.Message{
				ID: id, Lane: output, Incarnation: uuid.UUID{1, 14: which, 15: byte(i)}, Value: []byte(value),
				Deadline: w.clock.Now().UTC().Truncate(time.Microsecond).Add(
					time.Duration(rapid.IntRange(0, 30).Draw(w.T, "delay")) * time.Second),
			},
		})
		if rapid.IntRange(0, 3).Draw(w.T, "cancel") == 0 {
			delete(w.must, value) // it may be too late for that
			w.items[p] = append(w.items[p], node.Item{
				Epoch: 1, Offset: int64(len(w.items[p])), Action: node.Cancel,
				Message: node.Message{ID: id, Lane: output},
			})
		}
	}
}

func (w *inputWorld) open(n *inputNode) {
	store, err := journal.Open(inputsConfig(w.cluster, w.clock, filepath.Join(w.dir, n.name), n.inputs...))
	if err != nil {
		w.Fatal(err)
	}
	var ids []uuid.UUID
	for _, name := range n.inputs {
		at := slices.IndexFunc(inputsOf(), func(p node.Partition) bool { return p.Topic == name })
		ids = append(ids, inputsOf()[at].TopicID)
	}
	store.Identify(ids)
	n.store, n.held = store, nil
}

func (w *inputWorld) close() {
	for _, n := range w.nodes {
		if err := n.store.Close(); err != nil {
			w.Fatal(err)
		}
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.Fatal(err)
	}
}

func (w *inputWorld) any(r *rapid.T) *inputNode { return rapid.SampledFrom(w.nodes).Draw(r, "node") }

func (w *inputWorld) anywhere(r *rapid.T) node.Partition {
	return rapid.SampledFrom(inputsOf()).Draw(r, "partition")
}

func (w *inputWorld) own(n *inputNode, p node.Partition) error {
	return n.store.Own(w.Context(), numberIn(p, n.inputs), uuid.UUID{2})
}

func (w *inputWorld) release(n *inputNode, p node.Partition) { n.store.Release(numberIn(p, n.inputs)) }

// take has a node take in the next records of all partitions that it has, in one call.
func (w *inputWorld) take(n *inputNode, count int) {
	request := node.TakeRequest{Node: uuid.UUID{2}, Hold: time.Minute}
	for _, p := range inputsOf() {
		places := []node.Place{{Partition: p, Position: node.Position{Epoch: -1}}}
		positions, _, err := n.store.Positions(w.Context(), places)
		if err != nil {
			continue
		}
		request.From = append(request.From, node.Place{Partition: p, Position: positions[0]})
		first := min(int(positions[0].Offset), len(w.items[p]))
		for _, item := range w.items[p][first:min(first+count, len(w.items[p]))] {
			item.From = len(request.From) - 1
			request.Items = append(request.Items, item)
		}
	}
	if len(request.From) > 0 {
		_, _ = n.store.Take(w.Context(), request)
	}
}

func (w *inputWorld) claim(n *inputNode, limit int) int {
	claimed, err := n.store.Claim(w.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: w.clock.Now(),
		Lanes: []node.Share{{Lane: output, Limit: limit, Bytes: 1 << 20}},
	})
	if err != nil {
		return 0
	}
	n.held = append(n.held, claimed.Messages...)
	return len(claimed.Messages)
}

func (w *inputWorld) fire(n *inputNode) {
	records, next := make([]node.Record, len(n.held)), make([]node.Next, len(n.held))
	for i, m := range n.held {
		next[i] = node.Next{Of: m.Ref()}
		records[i] = node.Record{Topic: output, Key: []byte(m.ID), Value: m.Value}
	}
	n.store.Fire(w.Context(), records, next)
	n.held = nil
}

// restart restarts a node, which may name its input topics in another order from then on.
func (w *inputWorld) restart(r *rapid.T) {
	n := w.any(r)
	if err := n.store.Close(); err != nil {
		w.Fatal(err)
	}
	if rapid.Bool().Draw(r, "another order") {
		slices.Reverse(n.inputs)
	}
	if rapid.Bool().Draw(r, "without a copy") {
		removeCopy(w, filepath.Join(w.dir, n.name))
	}
	w.open(n)
}

// fault has something go wrong at one of the next steps.
func (w *inputWorld) fault(r *rapid.T) {
	left := rapid.IntRange(1, 8).Draw(r, "step")
	fault := rapid.SampledFrom([]simulated.Fault{simulated.Lost, simulated.Unanswered}).Draw(r, "fault")
	w.cluster.Strike(func(simulated.Step) simulated.Fault {
		if left--; left != 0 {
			return simulated.None
		}
		w.cluster.Strike(nil)
		return fault
	})
}

// check asks that nothing has come out twice.
func (w *inputWorld) check() (came map[string]bool) {
	came = map[string]bool{}
	for _, r := range w.cluster.Records(output, true) {
		if value := string(r.Value); came[value] || !w.may[value] {
			w.Fatalf("S24: %q has come out twice, or was never there", value)
		}
		came[string(r.Value)] = true
	}
	return came
}

// finish has one node go on alone, until nothing is left to do.
func (w *inputWorld) finish() {
	w.cluster.Strike(nil)
	n := w.nodes[0]
	for _, p := range inputsOf() {
		if err := w.own(n, p); err != nil {
			w.Fatalf("%s/%d: %v, and nothing goes wrong", p.Topic, p.Number, err)
		}
	}
	for range 20 {
		w.take(n, 5)
	}
	w.clock.Advance(time.Minute)
	n.held = nil
	for w.claim(n, 5) > 0 {
		w.fire(n)
	}
	came := w.check()
	for value := range w.must {
		if !came[value] {
			w.Fatalf("lost: %q has not come out; %v have", value, came)
		}
	}
	if rows, err := n.store.Dump(); err != nil || len(rows) != 0 {
		w.Fatalf("%d rows are left, %v", len(rows), err)
	}
}

// bring has a store own a partition of an input topic, and take in a message that is due.
func bring(t *testing.T, store *journal.Store, clock *storetest.Clock, p node.Partition, inputs ...string) {
	t.Helper()
	own(t, store, numberIn(p, inputs))
	bringTo(t, store, clock, output, p)
}

// bringTo has the owner of a partition of an input topic take in the next record, a message that is due on a lane.
func bringTo(t *testing.T, store *journal.Store, clock *storetest.Clock, lane string, p node.Partition) {
	t.Helper()
	from := []node.Place{{Partition: p, Position: node.Position{Epoch: -1}}}
	positions, _, err := store.Positions(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	from[0].Position = positions[0]
	result, err := store.Take(t.Context(), node.TakeRequest{From: from, Items: []node.Item{{
		Epoch: 1, Offset: positions[0].Offset, Action: node.Schedule, Message: node.Message{
			ID: p.Topic, Lane: lane, Incarnation: uuid.New(), Deadline: clock.Now().UTC().Truncate(time.Microsecond),
		},
	}}})
	if err != nil || result.Taken != 1 || result.Results[0].Outcome != node.Scheduled {
		t.Fatalf("take: %+v, %v", result, err)
	}
}

// Who names the journals of two input topics the wrong way round owns nothing, and says so, since positions tell. A
// journal that nobody has used yet may be anybody's.
func TestInputsSwapped(t *testing.T) {
	t.Parallel()
	cluster, clock := newInputs(), storetest.NewClock()
	all := inputsOf()
	right := open(t, inputsConfig(cluster, clock, t.TempDir(), ordersIn, paymentsIn))
	bring(t, right, clock, all[2], ordersIn, paymentsIn)
	config := inputsConfig(cluster, clock, t.TempDir(), ordersIn, paymentsIn)
	config.Ledger = inputsConfig(cluster, clock, "", paymentsIn, ordersIn).Ledger
	wrong := open(t, config)
	wrong.Identify([]uuid.UUID{all[0].TopicID, all[2].TopicID})
	err := wrong.Own(t.Context(), numberIn(all[0], config.Inputs), uuid.UUID{2})
	swapped, is := errors.AsType[*journal.SwappedError](err)
	if !is || swapped.Input != ordersIn || swapped.Other != paymentsIn {
		t.Errorf("own: %v", err)
	}
	right.Identify([]uuid.UUID{all[0].TopicID, all[2].TopicID})
	for _, p := range all {
		own(t, right, numberIn(p, config.Inputs))
	}
}

// A local copy is found again when an input topic is added behind the others, and made anew when one is put before
// them: it is never taken for that of another one.
func TestInputsCopies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		inputs []string
		anew   bool
	}{{[]string{ordersIn}, false}, {[]string{ordersIn, paymentsIn}, false}, {[]string{paymentsIn, ordersIn}, true}} {
		cluster, clock, dir := newInputs(), storetest.NewClock(), t.TempDir()
		alone := inputsConfig(cluster, clock, dir, ordersIn)
		alone.Ledger, alone.Inputs = cluster.Ledger(journalOf(ordersIn), journalOf(ordersIn)), nil
		before, err := journal.Open(alone)
		if err != nil {
			t.Fatal(err)
		}
		orders := inputsOf()[0]
		bring(t, before, clock, orders, ordersIn)
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		anew := map[int32]bool{}
		config := inputsConfig(cluster, clock, dir, c.inputs...)
		config.Observe = func(r journal.Replay) { anew[r.Number] = r.Anew }
		after := open(t, config)
		number := numberIn(orders, c.inputs)
		own(t, after, number)
		rows, err := after.Dump()
		if err != nil || len(rows) != 1 || rows[0].ID != ordersIn || anew[number] != c.anew {
			t.Errorf("%q: rows %+v, made anew %v, want %v; %v", c.inputs, rows, anew, c.anew, err)
		}
	}
}

// inputPoster appends to the journals of both input topics.
type inputPoster struct{ cluster *simulated.Cluster }

// Send implements journal.Poster.
func (p inputPoster) Send(_ context.Context, number int32, record node.Record) error {
	at, there := ledger.Split(number)
	p.cluster.Append(journalOf([]string{ordersIn, paymentsIn}[at]), there, record)
	return nil
}

// A pause is minded in the journals of all input topics when it is answered, and not answered while one of them can't
// be seen: what fires from that does not know of it.
func TestInputsPause(t *testing.T) {
	t.Parallel()
	cluster, clock := newInputs(), storetest.NewClock()
	config := inputsConfig(cluster, clock, t.TempDir(), ordersIn, paymentsIn)
	stores := []*journal.Store{open(t, config), open(t, inputsConfig(cluster, clock, t.TempDir(), config.Inputs...))}
	all := inputsOf()
	bring(t, stores[0], clock, all[0], config.Inputs...)
	own(t, stores[0], numberIn(all[1], config.Inputs))
	bring(t, stores[1], clock, all[2], config.Inputs...)
	board := journal.NewSwitchboard(config.Ledger, inputPoster{cluster}, journal.AskerLimits{})
	t.Cleanup(board.Close)
	stores[0].SwitchBy(board)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, len(stores))
	for _, store := range stores {
		go func() {
			store.Listen(ctx, time.Millisecond)
			ended <- struct{}{}
		}()
	}
	defer func() {
		stop()
		<-ended
		<-ended
	}()
	if _, err := stores[0].Pause(ctx, node.Pause{Lane: output}); err != nil {
		t.Fatal(err)
	}
	for i, store := range stores {
		claimed, err := store.Claim(ctx, node.ClaimRequest{
			Until: clock.Now(), Lanes: []node.Share{{Lane: output, Limit: 9, Bytes: 9}},
		})
		if err != nil || len(claimed.Messages) > 0 {
			t.Errorf("node %d claims on a lane that is paused: %+v, %v", i, claimed.Messages, err)
		}
	}
	if was, err := stores[0].Resume(ctx, output); err != nil || !was {
		t.Errorf("resume: %v, %v", was, err)
	}
	cluster.CreateTopic(journalOf(paymentsIn), 0, 0) // as a broker says that has just started
	if _, err := stores[0].Pause(ctx, node.Pause{Lane: output}); err == nil ||
		!strings.Contains(err.Error(), "journal of input 2 has no partition") {
		t.Errorf("a pause of a lane, and nobody knows of the second journal: %v", err)
	}
}

// A source tells the partitions of two topics that have one number apart: one is assigned, has its records and is
// revoked without the other.
func TestSourceInputs(t *testing.T) {
	t.Parallel()
	cluster, clock := newInputs(), storetest.NewClock()
	store := open(t, inputsConfig(cluster, clock, t.TempDir(), ordersIn, paymentsIn))
	g := &group{batches: make(chan node.Batch, 1)}
	source := journal.NewSource(g, store, uuid.New(), session, func(number int32, err error) {
		if err != nil {
			t.Errorf("own %s: %v", ledger.Name(number), err)
		}
	})
	t.Cleanup(source.Close)
	orders, payments := inputsOf()[0], inputsOf()[2]
	poll := func(b node.Batch) node.Batch {
		t.Helper()
		g.batches <- b
		b, err := source.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	assign := func(p node.Partition) {
		t.Helper()
		b := poll(node.Batch{Assigned: []node.Assignment{{Extent: node.Extent{Partition: p}}}})
		for len(b.Assigned) == 0 {
			var err error
			if b, err = source.Poll(t.Context()); err != nil || len(b.Revoked) > 0 {
				t.Fatalf("%+v, %v", b, err)
			}
		}
		if len(b.Assigned) != 1 || b.Assigned[0].Partition != p {
			t.Fatalf("assigned: %+v, want %+v", b.Assigned, p)
		}
	}
	both := []node.Record{{Topic: ordersIn, Offset: 1}, {Topic: paymentsIn, Offset: 2}}
	assign(orders)
	if b := poll(node.Batch{Records: slices.Clone(both)}); len(b.Records) != 1 || b.Records[0].Offset != 1 {
		t.Errorf("records of a partition that is not owned: %+v", b.Records)
	}
	assign(payments)
	if b := poll(node.Batch{Records: slices.Clone(both)}); len(b.Records) != 2 {
		t.Errorf("records of both: %+v", b.Records)
	}
	b := poll(node.Batch{Revoked: []node.Partition{payments}, Records: slices.Clone(both)})
	if len(b.Revoked) != 1 || len(b.Records) != 1 || b.Records[0].Offset != 1 {
		t.Errorf("one of them is revoked: %+v", b)
	}
	places := func(p node.Partition) error {
		_, _, err := store.Positions(t.Context(), []node.Place{{Partition: p}})
		return err
	}
	if places(orders) != nil || places(payments) == nil {
		t.Errorf("owned: %v, %v", places(orders), places(payments))
	}
	if places(node.Partition{Topic: "another", Number: 0}) == nil {
		t.Error("the position of a topic that is no input is known")
	}
}
