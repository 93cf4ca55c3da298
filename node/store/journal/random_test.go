package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/storetest"
)

// S24 and what goes with it, in worlds that are drawn at random: three nodes that own the partition in turn or
// believe that they do, take in, claim, fire, put off, crash with their local copies, without them or with old ones,
// while requests and answers get lost, and the journal is compacted. After each step, a consumer that reads what was
// committed has seen no message twice, and none early. In the end one node goes on alone: every message has come out
// then that nothing was to end.
func TestRandomOwners(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newOwners(t, r)
		defer w.close()
		r.Repeat(map[string]func(*rapid.T){
			"":         func(*rapid.T) { w.check() },
			"own":      func(r *rapid.T) { w.own(w.any(r)) },
			"go on":    func(*rapid.T) { w.goOn() },
			"take":     w.take,
			"claim":    w.claim,
			"fire":     func(r *rapid.T) { w.fire(w.some(r)) },
			"put off":  w.putOff,
			"crash":    w.crash,
			"keep":     func(r *rapid.T) { w.keep(w.some(r)) },
			"fault":    w.fault,
			"compact":  func(*rapid.T) { w.cluster.Compact(topicName, 0, false) },
			"age":      func(*rapid.T) { w.age() },
			"tick":     w.tick,
			"follow":   w.follow,
			"takeover": func(r *rapid.T) { w.live(w.any(r)) },
			"wish":     w.wish,
			"hear":     func(r *rapid.T) { w.hear(w.some(r)) },
		})
		w.finish()
	})
}

// owners are nodes that own one partition in turn.
type owners struct {
	*rapid.T

	cluster *simulated.Cluster
	clock   *storetest.Clock
	dir     string
	nodes   []*owningNode
	owner   *owningNode          // who has come to own the partition last
	items   []node.Item          // the input
	due     map[string]time.Time // of each message, by its value
	must    map[string]bool      // the values that have to come out
	cancels map[string]bool      // the values whose cancellation was confirmed before they had come out
	claims  int                  // that were made
	barred  map[string]bool      // the claims that were made on a paused lane
	wishes  byte                 // that were sent
}

// owningNode is one of them.
type owningNode struct {
	name  string
	store *journal.Store
	held  []heldMessage // what it has claimed and not fired
	kept  bool          // whether there is an old copy
}

func newOwners(t *testing.T, r *rapid.T) *owners {
	t.Helper()
	w := &owners{
		T: r, cluster: simulated.New(), clock: storetest.NewClock(), dir: t.TempDir(),
		due: map[string]time.Time{}, must: map[string]bool{}, cancels: map[string]bool{}, barred: map[string]bool{},
	}
	w.cluster.CreateTopic(topicName, 1, 0)
	w.cluster.CreateTopic(output, 2, 0)
	for i := range 3 {
		w.nodes = append(w.nodes, &owningNode{name: fmt.Sprint("node-", i)})
		w.open(w.nodes[i])
	}
	w.owner = w.nodes[0]
	w.own(w.owner)
	w.write()
	return w
}

// write draws the input: messages, some of them again under the same id, some of them cancelled again, some large.
func (w *owners) write() {
	count := rapid.IntRange(1, 25).Draw(w.T, "records")
	last := map[string]string{} // the first value of each id
	for i := range count {
		item := node.Item{Epoch: 1, Offset: int64(i), Action: node.Schedule}
		id := fmt.Sprint("m", rapid.IntRange(0, 15).Draw(w.T, "id"))
		if rapid.IntRange(0, 4).Draw(w.T, "kind") == 0 {
			item.Action, item.Message = node.Cancel, node.Message{ID: id, Lane: output}
			delete(w.must, last[id]) // or not: it may be too late for that
		} else {
			value := fmt.Sprintf("%s at %d", id, i)
			deadline := w.clock.Now().UTC().Truncate(time.Microsecond).Add(
				time.Duration(rapid.IntRange(0, 60).Draw(w.T, "delay")) * time.Second)
			item.Message = node.Message{
				ID: id, Lane: output, Incarnation: uuid.UUID{1, 14: byte(i >> 8), 15: byte(i)},
				Deadline: deadline, Value: []byte(value),
			}
			if rapid.Bool().Draw(w.T, "large") {
				item.Key = make([]byte, journal.Large)
			}
			w.due[value] = deadline
			if last[id] == "" { // or else it may be a duplicate
				last[id], w.must[value] = value, true
			}
		}
		w.items = append(w.items, item)
	}
}

func (w *owners) path(n *owningNode, kind string) string { return filepath.Join(w.dir, n.name+kind) }

func (w *owners) open(n *owningNode) {
	store, err := journal.Open(journal.Config{
		Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: w.path(n, ""), Now: w.clock.Now, Group: "group",
	})
	if err != nil {
		w.Fatal(err)
	}
	n.store, n.held = store, nil
}

func (w *owners) shut(n *owningNode) {
	if err := n.store.Close(); err != nil {
		w.Fatal(err)
	}
}

func (w *owners) close() {
	for _, n := range w.nodes {
		w.shut(n)
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.Fatal(err)
	}
}

// some draws a node, mostly the owner: others have little to do.
func (w *owners) some(r *rapid.T) *owningNode {
	if i := rapid.IntRange(-4, len(w.nodes)-1).Draw(r, "node"); i >= 0 {
		return w.nodes[i]
	}
	return w.owner
}

// any draws a node.
func (w *owners) any(r *rapid.T) *owningNode {
	return w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(r, "node")]
}

// live has a node own the partition, take some records in and fire what is due.
func (w *owners) live(n *owningNode) {
	if w.own(n) && w.takeIn(n, 0, 5) {
		w.fireAll(n)
	}
}

// goOn has the owner own the partition anew if it has lost it, as the source does, and otherwise take in, claim and
// fire.
func (w *owners) goOn() {
	if lost := w.owner.store.Lost(); len(lost) > 0 && !w.own(w.owner) {
		return
	}
	if w.takeIn(w.owner, 0, 3) && w.claimDue(w.owner, 3) > 0 {
		w.fire(w.owner)
	}
}

// own has a node own the partition. What it had claimed it forgets, as the engine does with what was revoked, or not:
// then it fires what it holds from before.
func (w *owners) own(n *owningNode) bool {
	owns := n.store.Own(w.Context(), 0, uuid.UUID{2}) == nil
	if owns {
		w.owner = n
	}
	return owns
}

func (w *owners) take(r *rapid.T) {
	w.takeIn(w.some(r), rapid.IntRange(0, 3).Draw(r, "again"), rapid.IntRange(1, 8).Draw(r, "records"))
}

// takeIn has a node take in some records, of which the first ones may have been taken in before.
func (w *owners) takeIn(n *owningNode, again, count int) bool {
	place := node.Place{Partition: input(), Position: node.Position{Epoch: -1}}
	positions, _, err := n.store.Positions(w.Context(), []node.Place{place})
	if err != nil {
		return false
	}
	place.Position = positions[0]
	from := max(int(place.Offset)-again, 0)
	part := w.items[from:min(from+count, len(w.items))]
	still := w.paused(node.Intake)
	result, err := n.store.Take(w.Context(), node.TakeRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, From: []node.Place{place}, Items: part,
	})
	if err != nil || result.Refused[0] {
		return false
	}
	// A former owner, which does not know of the pause, may be asked for nothing but what has been taken in before. It
	// is answered what became of that, without a transaction, and the position stays where it is.
	if still && result.Positions[0] != place.Position {
		w.Fatalf("S25: records are taken in after the pause of the intake was answered")
	}
	for i, one := range result.Results {
		if part[i].Action == node.Cancel && one.Outcome == node.Cancelled {
			w.cancelled(from+i, part[i].ID)
		}
	}
	return true
}

// cancelled notes that what waited under an id before a record comes out no more, unless it has.
func (w *owners) cancelled(before int, id string) {
	came := w.came()
	for _, item := range w.items[:before] {
		if value := string(item.Value); item.Action == node.Schedule && item.ID == id && !slices.Contains(came, value) {
			w.cancels[value] = true
		}
	}
}

func (w *owners) claim(r *rapid.T) {
	w.claimDue(w.some(r), rapid.IntRange(1, 5).Draw(r, "limit"))
}

// claimDue has a node claim what is due.
func (w *owners) claimDue(n *owningNode, limit int) int {
	still := w.paused(output)
	claimed, err := n.store.Claim(w.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: w.clock.Now(),
		Lanes: []node.Share{{Lane: output, Limit: limit, Bytes: 1 << 20}},
	})
	if err != nil {
		return 0
	}
	for _, m := range claimed.Messages {
		w.claims++
		name := fmt.Sprint(w.claims)
		w.barred[name] = still
		n.held = append(n.held, heldMessage{m, name})
	}
	return len(claimed.Messages)
}

// heldMessage is a message that was claimed, and the name of the claim.
type heldMessage struct {
	node.Ready

	claim string
}

// wish has somebody wish that the lane, or the intake, is paused or resumed.
func (w *owners) wish(r *rapid.T) {
	w.append(rapid.SampledFrom([]string{output, node.Intake}).Draw(r, "lane"), rapid.Bool().Draw(r, "pause"))
}

func (w *owners) append(lane string, pause bool) {
	w.wishes++
	record, err := journal.Wish(uuid.UUID{4, 15: w.wishes}, lane, pause)
	if err != nil {
		w.Fatal(err)
	}
	w.cluster.Append(topicName, 0, record)
}

// hear has a node do what is wished, if it owns the partition or believes so.
func (w *owners) hear(n *owningNode) { _ = n.store.Hear(w.Context()) }

// paused reports whether somebody could have been told that a lane, or the intake, is paused.
func (w *owners) paused(lane string) (is bool) {
	for _, r := range w.cluster.Records(topicName, true) {
		if of, paused, some := journal.Switched(r); some && of == lane {
			is = paused
		}
	}
	return is
}

// fire has a node fire what it holds, however long it has held that.
func (w *owners) fire(n *owningNode) {
	records, next := make([]node.Record, len(n.held)), make([]node.Next, len(n.held))
	for i, m := range n.held {
		next[i] = node.Next{Of: m.Ref()}
		records[i] = node.Record{
			Topic: output, Key: []byte(m.ID), Value: m.Value,
			Headers: []node.Header{{Name: "claim", Value: []byte(m.claim)}},
		}
	}
	n.store.Fire(w.Context(), records, next)
	n.held = nil
}

// follow has a node be a standby for a moment: it gives up what it owns, if it does, and reads on for some turns, or to
// the end.
func (w *owners) follow(r *rapid.T) {
	n := w.any(r)
	n.store.Release(0)
	follower := journal.NewFollower(n.store, rapid.IntRange(1, 10).Draw(r, "most"))
	for range rapid.IntRange(1, 4).Draw(r, "turns") {
		follower.Round(w.Context())
	}
}

// fireAll has a node claim and fire all that is due.
func (w *owners) fireAll(n *owningNode) {
	for w.claimDue(n, 5) > 0 {
		w.fire(n)
	}
}

// putOff has a node give back what it holds.
func (w *owners) putOff(r *rapid.T) {
	n := w.some(r)
	releases := make([]node.Release, len(n.held))
	later := time.Duration(rapid.IntRange(0, 5).Draw(r, "later")) * time.Second
	for i, m := range n.held {
		releases[i] = node.Release{Claim: m.Claim, Due: w.clock.Now().Add(later)}
	}
	_, _ = n.store.Reset(w.Context(), releases)
	n.held = nil
}

// crash restarts a node, with its local copy, without one, or with the one that it had when keep was called.
func (w *owners) crash(r *rapid.T) {
	n := w.some(r)
	w.shut(n)
	switch rapid.SampledFrom([]string{"copy", "none", "old"}).Draw(r, "copy") {
	case "none":
		removeCopy(w, w.path(n, ""))
	case "old":
		if n.kept {
			removeCopy(w, w.path(n, ""))
			duplicate(w, w.path(n, "-old"), w.path(n, ""))
		}
	}
	w.open(n)
}

// keep puts a copy of a node's local copy aside.
func (w *owners) keep(n *owningNode) {
	w.shut(n)
	removeCopy(w, w.path(n, "-old"))
	duplicate(w, w.path(n, ""), w.path(n, "-old"))
	n.kept = true
	w.open(n)
}

// removeCopy removes the folder of a local copy.
func removeCopy(t rapid.TB, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// duplicate puts the folder of a local copy somewhere else, too.
func duplicate(t rapid.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// fault has something go wrong at one of the next steps, and perhaps another node own the partition just there, take in
// and fire, while the first one stands still.
func (w *owners) fault(r *rapid.T) {
	left := rapid.IntRange(1, 6).Draw(r, "step")
	fault := rapid.SampledFrom([]simulated.Fault{simulated.None, simulated.Lost, simulated.Unanswered}).Draw(r, "fault")
	other := rapid.IntRange(-1, len(w.nodes)-1).Draw(r, "takeover")
	long := rapid.Bool().Draw(r, "long")
	w.cluster.Strike(func(simulated.Step) simulated.Fault {
		if left--; left != 0 {
			return simulated.None
		}
		w.cluster.Strike(nil)
		if other >= 0 {
			w.overtake(w.nodes[other])
		}
		if long {
			w.age()
		}
		return fault
	})
}

// overtake has a node live while another one stands still between two steps of a call. A node does not overtake itself:
// its calls come one after the other.
func (w *owners) overtake(n *owningNode) {
	fresh := &owningNode{name: n.name + "-beside"}
	w.open(fresh)
	owner := w.owner
	w.live(fresh)
	w.owner = owner
	w.shut(fresh)
	removeCopy(w, w.path(fresh, ""))
}

// age has compaction remove tombstones too, which it does when delete.retention.ms has passed, and so when every local
// copy that has not seen them is older than MaxAge.
func (w *owners) age() {
	w.cluster.Compact(topicName, 0, true)
	w.clock.Advance(2 * time.Hour)
}

// came returns what a consumer sees that reads what was committed.
func (w *owners) came() []string {
	var values []string
	for _, r := range w.cluster.Records(output, true) {
		values = append(values, string(r.Value))
	}
	return values
}

// tick has time pass.
func (w *owners) tick(r *rapid.T) {
	w.clock.Advance(time.Duration(rapid.IntRange(1, 30).Draw(r, "seconds")) * time.Second)
}

// check asks that nothing has come out twice, early, or though it was cancelled.
func (w *owners) check() {
	seen := map[string]bool{}
	if !w.paused(output) {
		// What a former owner had claimed meanwhile may come out now, like everything else:
		//
		//	A claims x on the paused lane, which it does not know of    resumed; A owns, claims x anew, fires both
		clear(w.barred)
	}
	for _, r := range w.cluster.Records(output, true) {
		if w.barred[string(r.Headers[0].Value)] {
			w.Fatalf("S25: %q has come out, and was claimed after the pause of its lane was answered", r.Value)
		}
	}
	for _, value := range w.came() {
		switch {
		case seen[value]:
			w.Fatalf("S24: %q has come out twice", value)
		case w.clock.Now().Before(w.due[value]):
			w.Fatalf("%q has come out before its deadline", value)
		case w.cancels[value]:
			w.Fatalf("%q has come out, and was cancelled", value)
		}
		seen[value] = true
	}
}

// finish has one node go on alone, until nothing is left to do.
func (w *owners) finish() {
	w.cluster.Strike(nil)
	n := w.nodes[0]
	if !w.own(n) {
		w.Fatal("a node does not come to own the partition, and nothing goes wrong")
	}
	w.append(output, false)
	w.append(node.Intake, false)
	w.hear(n)
	if w.paused(output) || w.paused(node.Intake) {
		w.Fatalf("what was resumed is still paused, and nothing goes wrong")
	}
	for range w.items {
		w.takeIn(n, 0, 5)
	}
	w.clock.Advance(2 * time.Minute)
	w.fireAll(n)
	w.check()
	came := w.came()
	for value := range w.must {
		if !slices.Contains(came, value) {
			w.Fatalf("lost: %q has not come out; %q have", value, came)
		}
	}
	if rows, err := n.store.Dump(); err != nil || len(rows) != 0 {
		w.Fatalf("%d rows are left, %v", len(rows), err)
	}
}
