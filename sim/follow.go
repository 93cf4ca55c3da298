package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/sim/proof"
)

// follower checks that each step of a run is a step of the transition system that package proof proves: its guards
// hold, by the same definitions that the solvers are given, and the store is afterwards what the step makes of it. So
// the proof is one about the code that runs here.
//
// It keeps a state of the system, which it changes by the transitions only. It hears of each transaction of the store
// from truth, of the requests of nodes from their ports, and of publishes from the recorder. What is said of all things
// is evaluated for those that the step can concern, since all guards are about one message, or one partition.
//
// What a step is in the run, and what in the system:
//
//   - A take is one step for each record, and one more for each claim that it makes.
//   - A node hears of a claim when the call is answered; the step is made when it uses the claim for the first time.
//   - Messages that Kafka rejects, or that are copied to a dead-letter topic, are given up.
//   - What the store says of itself (that it catches up, holds, is suspect) is taken as it says it.
//   - When the store is set back, the state begins anew with what the store has.
type follower struct {
	world  *world
	system *proof.System
	state  *proof.Structure

	nodes   map[uuid.UUID]proof.Element
	names   map[node.MessageID]*followed
	drawn   map[uuid.UUID]*incarnation
	claims  map[claimKey]proof.Element
	byClaim map[proof.Element]*heldClaim
	number  map[proof.Element]int64 // of an offset, an epoch or an instant
	things  map[numbered]proof.Element
	places  map[node.Partition]proof.Element
	at      map[proof.Element]recordPlace // the position of each partition, by the element of the partition

	catching proof.Element               // a record that is to be taken in before anything is claimed
	requests map[uuid.UUID]proof.Element // by their names: those past Kafka of which the store keeps the answer
	steps    map[string]int
}

// followed is what there is of one name: only that matters for a step on it.
type followed struct {
	node.MessageID

	name         proof.Element
	incarnations []*incarnation
	claims       []proof.Element
	owners       []proof.Element
}

// things returns the incarnations of a name.
func (n *followed) things() []proof.Element {
	return mapped(n.incarnations, func(i *incarnation) proof.Element { return i.Element })
}

// incarnation is a thing, and the claims on it, the latest last.
type incarnation struct {
	proof.Element

	id     uuid.UUID
	of     *followed
	claims []*heldClaim
	timed  bool // there is an instant after which it is not published any more
}

// heldClaim is a claim as its owner knows it.
type heldClaim struct {
	proof.Element

	owner    uuid.UUID
	told     bool // the answer has arrived
	settings int  // how often the clock of the store had been set when the statement began that made it; -1: who knows
}

type claimKey struct {
	incarnation, owner uuid.UUID
	stamp              int64
}

type numbered struct {
	sort   proof.Sort
	number int64
}

// recordPlace is the place of a record.
type recordPlace struct {
	partition     node.Partition
	epoch, offset int64
}

// newFollower returns a follower of a world in which nothing has happened.
func newFollower(w *world) *follower {
	f := &follower{world: w, system: proof.Ours(), steps: map[string]int{}}
	f.forget()
	return f
}

// followed returns how often each step was made; nil if nobody follows.
func (f *follower) followed() map[string]int {
	if f == nil {
		return nil
	}
	return f.steps
}

// forget begins with an empty state.
func (f *follower) forget() {
	f.state = proof.NewStructure()
	f.nodes, f.names = map[uuid.UUID]proof.Element{}, map[node.MessageID]*followed{}
	f.drawn, f.claims = map[uuid.UUID]*incarnation{}, map[claimKey]proof.Element{}
	f.byClaim = map[proof.Element]*heldClaim{}
	f.number, f.things = map[proof.Element]int64{}, map[numbered]proof.Element{}
	f.places = map[node.Partition]proof.Element{}
	f.at, f.requests = map[proof.Element]recordPlace{}, map[uuid.UUID]proof.Element{}
	lower := func(a, b proof.Element) bool { return f.number[a] < f.number[b] }
	f.state.Computed["lower offset"], f.state.Computed["lower epoch"] = lower, lower
	f.state.Computed["earlier"] = lower
	f.catching = f.state.Add(proof.Record)
	f.state.Set("marked", true, f.catching)
	f.state.Set("present", true, f.catching)
}

// step makes a step, if its guards hold.
func (f *follower) step(transition string, only map[proof.Sort][]proof.Element, about string,
	params map[string]proof.Element,
) {
	t := f.system.Transition(transition)
	w := proof.World{Structure: f.state, Only: only}
	if missing := w.Missing(t, params); missing != "" {
		f.world.broken("proof", fmt.Sprintf("%s: no step of the proof is %q, since it needs that %s",
			about, transition, missing))
		return
	}
	f.steps[transition]++
	w.Apply(t, params)
}

// numeral returns the thing that a number is.
func (f *follower) numeral(sort proof.Sort, number int64) proof.Element {
	key := numbered{sort, number}
	thing, known := f.things[key]
	if !known {
		thing = f.state.Add(sort)
		f.things[key], f.number[thing] = thing, number
	}
	return thing
}

// nodeOf returns a process.
func (f *follower) nodeOf(id uuid.UUID) proof.Element {
	thing, known := f.nodes[id]
	if !known {
		thing = f.state.Add(proof.Node)
		f.nodes[id] = thing
	}
	return thing
}

// nameOf returns what there is of a name.
func (f *follower) nameOf(id node.MessageID) *followed {
	n := f.names[id]
	if n == nil {
		n = &followed{MessageID: id, name: f.state.Add(proof.Name)}
		f.names[id] = n
	}
	return n
}

// incarnationOf returns an incarnation.
func (f *follower) incarnationOf(ref node.Ref) *incarnation {
	i := f.drawn[ref.Incarnation]
	if i == nil {
		of := f.nameOf(node.MessageID{ID: ref.ID, Lane: ref.Lane})
		i = &incarnation{Element: f.state.Add(proof.Incarnation), id: ref.Incarnation, of: of}
		f.drawn[ref.Incarnation] = i
		of.incarnations = append(of.incarnations, i)
		f.state.Let("name", of.name, i.Element)
	}
	return i
}

// claimOf returns a claim.
func (f *follower) claimOf(c node.Claim) proof.Element {
	key := claimKey{c.Incarnation, c.ReadiedBy, c.ReadiedAt.UnixMicro()}
	thing, known := f.claims[key]
	if !known {
		thing = f.state.Add(proof.Claim)
		i, owner := f.incarnationOf(c.Ref), f.nodeOf(c.ReadiedBy)
		f.claims[key] = thing
		held := &heldClaim{Element: thing, owner: c.ReadiedBy, settings: -1}
		f.byClaim[thing] = held
		i.claims = append(i.claims, held)
		i.of.claims = append(i.of.claims, thing)
		if !slices.Contains(i.of.owners, owner) {
			i.of.owners = append(i.of.owners, owner)
		}
		f.state.Let("on", i.Element, thing)
		f.state.Let("owner", owner, thing)
		f.state.Let("expiry", f.numeral(proof.Time, c.Expires.UnixMicro()), thing)
	}
	return thing
}

// worldOf returns what a step on a name can concern.
func (f *follower) worldOf(of *followed, records ...proof.Element) map[proof.Sort][]proof.Element {
	return map[proof.Sort][]proof.Element{
		proof.Node: of.owners, proof.Name: {of.name}, proof.Incarnation: of.things(), proof.Claim: of.claims,
		proof.Record: records, proof.Partition: nil, proof.Offset: nil, proof.Epoch: nil, proof.Time: nil,
		proof.Image: nil,
	}
}

// started and ended are about processes.
func (f *follower) started(l *life) {
	n := f.nodeOf(l.id())
	f.step("start", map[proof.Sort][]proof.Element{proof.Node: {n}}, l.label, map[string]proof.Element{"n": n})
}

func (f *follower) ended(l *life) {
	n := f.nodeOf(l.id())
	var held []proof.Element
	for _, c := range f.state.Things(proof.Claim) {
		if f.state.Value("owner", c) == n {
			held = append(held, c)
		}
	}
	f.step("crash", map[proof.Sort][]proof.Element{proof.Node: {n}, proof.Claim: held}, l.label,
		map[string]proof.Element{"n": n})
}

// told notes that a node has got an answer with a claim.
func (f *follower) told(c node.Claim) {
	thing := f.claimOf(c)
	f.byClaim[thing].told = true
}

// uses returns the claim of a node on an incarnation under which it begins to publish: the first that it was told of
// and has not used. It learns of it now. If there is none, it uses the latest once more, which is no step of the proof.
func (f *follower) uses(l *life, id uuid.UUID) (latest *heldClaim) {
	i := f.drawn[id]
	if i == nil {
		return nil
	}
	for _, c := range i.claims {
		if !c.told || c.owner != l.id() {
			continue
		}
		latest = c
		unused := f.state.Is("held", c.Element) || !f.state.Is("given", c.Element)
		if unused && !f.state.Is("reached", f.state.Value("expiry", c.Element)) {
			break
		}
	}
	if latest != nil {
		f.learn(i, latest, l.label)
	}
	return latest
}

func (f *follower) learn(i *incarnation, c *heldClaim, about string) {
	if !f.state.Is("given", c.Element) {
		f.step("learn", f.worldOf(i.of), about, map[string]proof.Element{"c": c.Element})
	}
}

// copied reports whether what is published on a topic is a copy: the message belongs on another one.
func (f *follower) copied(id uuid.UUID, topic string) bool {
	return f.drawn[id] != nil && f.drawn[id].of.Lane != topic
}

// vague tells that a node holds claims on two incarnations of one submission, and publishes one of them: which one the
// record is of nobody can tell from outside. Either may be settled after it.
func (f *follower) vague(l *life, id uuid.UUID, others []uuid.UUID) {
	if i := f.drawn[id]; i != nil {
		for _, other := range i.of.incarnations {
			f.state.Set("may end", true, other.Element)
		}
	}
	for _, other := range others {
		if f.uses(l, other) != nil {
			f.state.Set("may end", true, f.drawn[other].Element)
		}
	}
}

// sent tells that a node begins to publish under a claim on an incarnation, which it returns; nothing for a copy, nor
// for the second record where it is not known which is of which.
func (f *follower) sent(l *life, id uuid.UUID, topic string, vague bool) proof.Element {
	c := f.uses(l, id)
	switch {
	case f.copied(id, topic):
		return 0
	case c == nil:
		f.unclaimed(l, id.String())
		return 0
	case vague && !f.state.Is("held", c.Element):
		return 0
	}
	i, expiry := f.drawn[id], f.state.Value("expiry", c.Element)
	f.clock(f.world.store.instant(), i.of)
	reached := f.state.Is("reached", expiry)
	if c.settings != f.world.store.settings {
		// The proof assumes that nobody sets the clock of the store while a claim is held.
		f.state.Set("reached", false, expiry)
	}
	f.step("send", f.worldOf(i.of), fmt.Sprintf("node %s publishes %s", l.label, id),
		map[string]proof.Element{"c": c.Element})
	f.state.Set("reached", reached, expiry)
	return c.Element
}

// unclaimed tells that a node publishes what it was given no claim on.
func (f *follower) unclaimed(l *life, what string) {
	f.world.broken("proof", fmt.Sprintf("node %s publishes %s, and the store has given it no claim on that", l.label,
		what))
}

// appended tells that Kafka has appended what was published under a claim on an incarnation.
func (f *follower) appended(c proof.Element, id uuid.UUID) {
	f.step("append", f.worldOf(f.drawn[id].of), fmt.Sprintf("a record of %s is appended", id),
		map[string]proof.Element{"c": c})
}

// heard tells what a node hears of its publish under a claim.
func (f *follower) heard(l *life, under held, topic string, err error) {
	i := f.drawn[under.incarnation]
	if i == nil {
		return
	}
	switch {
	case !f.copied(under.incarnation, topic):
		if refuses(err) {
			f.state.Set("may end", true, i.Element)
		}
	case err == nil:
		f.state.Set("may end", true, i.Element)
		return
	default:
		return
	}
	params := map[string]proof.Element{"c": under.claim}
	switch {
	case under.claim == 0:
	case err == nil:
		f.step("acknowledge", f.worldOf(i.of), fmt.Sprintf("node %s is told that %s is published", l.label, i.of.ID),
			params)
	case certainty(err) != "":
		f.step("fail", f.worldOf(i.of), fmt.Sprintf("node %s is told that %s is not published", l.label, i.of.ID),
			params)
	}
}

// settles tells that a node asks to settle an incarnation: since its publish is acknowledged, or it is given up.
func (f *follower) settles(l *life, ref node.Ref) {
	i := f.incarnationOf(ref)
	for _, c := range i.claims {
		if c.owner == l.id() && f.state.Is("acked", c.Element) {
			f.step("ask", f.worldOf(i.of), fmt.Sprintf("node %s settles %s", l.label, ref.ID),
				map[string]proof.Element{"c": c.Element})
			return
		}
	}
	for _, c := range i.claims {
		if c.owner == l.id() {
			f.step("give up", f.worldOf(i.of), fmt.Sprintf("node %s settles %s, and was told of no publish", l.label,
				ref.ID),
				map[string]proof.Element{"c": c.Element})
			return
		}
	}
}

// passes tells that a node asks to pass over an occurrence.
func (f *follower) passes(l *life, n *node.Next) {
	i := f.incarnationOf(n.Of)
	f.step("pass over", f.worldOf(i.of), fmt.Sprintf("node %s passes %s over", l.label, n.Of.ID),
		map[string]proof.Element{"c": f.claimOf(n.Missed)})
}

// resets tells that a node asks to take a claim off: its own, or one that it has found expired.
func (f *follower) resets(l *life, r *node.Release) {
	thing, i := f.claimOf(r.Claim), f.incarnationOf(r.Ref)
	params := map[string]proof.Element{"c": thing}
	switch {
	case r.ReadiedBy != l.id():
		f.step("suspect", f.worldOf(i.of), fmt.Sprintf("node %s resets a claim on %s", l.label, r.ID), params)
	case r.Unsent && f.state.Is("unsent", thing): // it is asked once more
	case r.Unsent:
		for _, c := range i.claims {
			if c.Element == thing && c.told {
				f.learn(i, c, l.label)
			}
		}
		f.step("give back unsent", f.worldOf(i.of), fmt.Sprintf("node %s gives %s back as unsent", l.label, r.ID),
			params)
	default:
		f.step("give back", f.worldOf(i.of), fmt.Sprintf("node %s gives %s back", l.label, r.ID), params)
	}
}

// clock notes which claims have expired by the clock of the store.
func (f *follower) clock(now time.Time, of *followed) {
	for _, c := range of.claims {
		f.tick(now, f.state.Value("expiry", c))
	}
}

func (f *follower) tick(now time.Time, at proof.Element) {
	if f.number[at] <= now.UnixMicro() && !f.state.Is("reached", at) {
		f.step("tick", map[proof.Sort][]proof.Element{proof.Time: {at}}, "the store", map[string]proof.Element{"t": at})
	}
}
