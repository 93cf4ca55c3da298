package model

import (
	"testing"

	"chronos/sim/proof"
)

// TestAgreesWithTheProof goes through all states of the small scopes, and evaluates the invariant of package proof in
// each of them, as far as a state of this model says what the proof is about. What is stated there for any number of
// things, and what is reached here with few of them, were written apart.
//
// A state of the model says what is stored, claimed, taken in, published and told. It forgets claims that nothing can
// equal any more; so all of them count as old here, and what the proof says of the claims of one lineage is not
// compared. Contents of records stand for incarnations.
func TestAgreesWithTheProof(t *testing.T) {
	ours := proof.Ours()
	states := 0
	for _, scope := range SmallScopes() {
		if scope.Adopt {
			continue // what an older deployment has stored was taken in without a position: the proof begins after that
		}
		s := search{machine: machine{scope: scope}}
		s.walk()
		states += len(s.keys)
		for number, k := range s.keys {
			if testing.Short() && number%7 != 0 {
				continue // the states lie close to each other
			}
			at := unpack(k)
			w := s.machine.world(&at)
			for _, claim := range append(ours.Invariant, ours.Promises...) {
				if !w.Holds(claim.Formula, nil) {
					t.Fatalf("%s: %q does not hold in %+v", scope.Name, claim.Name, at)
				}
			}
		}
	}
	if states < 1000 {
		t.Errorf("there are %d states only", states)
	}
}

// TestDisagreesWithVariants shows that the comparison can fail: states of a variant break the same invariant.
func TestDisagreesWithVariants(t *testing.T) {
	ours := proof.Ours()
	for variant, broken := range map[string]string{
		"delete-by-id": "nothing is lost", "skip-by-offset": "no gap", "late-unbound": "promises are bound",
		"unknown-is-success": "acknowledged is out", "take-creates": "no gap",
	} {
		v, known := VariantByName(variant)
		if !known {
			t.Errorf("there is no variant %q", variant)
			continue
		}
		s := search{machine: machine{rules: v.Rules, scope: v.Scope}}
		s.walk()
		found := false
		for _, k := range s.keys {
			at := unpack(k)
			w := s.machine.world(&at)
			for _, claim := range append(ours.Invariant, ours.Promises...) {
				found = found || claim.Name == broken && !w.Holds(claim.Formula, nil)
			}
		}
		if !found {
			t.Errorf("no state of %s breaks %q", variant, broken)
		}
	}
}

// world returns what a state says in the words of the proof.
func (m *machine) world(s *state) proof.World {
	w := proof.World{Structure: proof.NewStructure()}
	numbers := map[proof.Element]uint8{}
	w.Computed["lower offset"] = func(a, b proof.Element) bool { return numbers[a] < numbers[b] }
	w.Computed["lower epoch"] = w.Computed["lower offset"]
	w.Computed["earlier"] = w.Computed["lower offset"]
	var offsets, epochs [16]proof.Element
	for n := range offsets {
		offsets[n], epochs[n] = w.Add(proof.Offset), w.Add(proof.Epoch)
		numbers[offsets[n]], numbers[epochs[n]] = uint8(n), uint8(n) //nolint:gosec // small
	}
	name, expiry := w.Add(proof.Name), w.Add(proof.Time)
	topics := [2]proof.Element{w.Add(proof.Partition), w.Add(proof.Partition)}
	nodes := [3]proof.Element{w.Add(proof.Node), w.Add(proof.Node), w.Add(proof.Node)}
	for _, n := range nodes {
		w.Set("started", true, n)
	}
	w.Set("reached", true, expiry)
	place := func(topic, offset, epoch uint8) proof.Element {
		r := w.Add(proof.Record)
		w.Let("partition", topics[topic], r)
		w.Let("offset", offsets[offset], r)
		w.Let("epoch", epochs[epoch], r)
		w.Let("about", name, r)
		w.Set("written", true, r)
		return r
	}
	has := func(set, r uint8) bool { return set>>r&1 == 1 }
	var contents [records]proof.Element
	for r := range min(s.log.sent, records) {
		version, offset := versionBefore, r
		if s.log.fate >= versionAfter && r >= s.log.cut {
			version, offset = versionAfter, s.log.keep+r-s.log.cut
		}
		record := place(s.log.topic(version), offset+1, s.log.epoch(r))
		content := w.Add(proof.Incarnation)
		contents[r] = content
		w.Let("name", name, content)
		schedules := schedules(m.scope.kind(r))
		w.Set("brings", true, content, record)
		w.Set("submits", schedules, record)
		w.Set("present", has(s.log.visible(), r), record)
		w.Set("taken", has(s.store.taken, r), record)
		w.Set("covered", has(s.store.covered, r), record)
		brought := schedules && (has(s.store.taken, r) || has(s.fired, r)) && !has(s.store.covered,
			r) || s.store.row.of(r)
		w.Set("brought", brought, content)
		w.Set("drawn", brought || has(s.fired, r), content)
		w.Set("stored", s.store.row.of(r), content)
		w.Set("bound", s.store.row.of(r) && s.store.row.bound == 1, content)
		w.Set("ended", has(s.store.ended, r), content)
		w.Set("appeared", has(s.fired, r), content)
		w.Set("never", has(s.cancelled, r), content)
		w.Set("promised", has(s.bound, r), content)
	}
	for topic, p := range s.store.positions {
		if p.has == 1 && p.epoch != epochUnknown {
			w.Set("at", true, place(uint8(topic), p.offset, p.epoch)) //nolint:gosec // two topics
		}
		w.Set("placed", p.has == 1, topics[topic])
	}
	claim := func(src, owner uint8) proof.Element {
		c := w.Add(proof.Claim)
		w.Let("on", contents[src], c)
		w.Let("owner", nodes[owner], c)
		w.Let("expiry", expiry, c)
		for _, relation := range []string{"made", "old", "given"} {
			w.Set(relation, true, c)
		}
		w.Set("drawn", true, contents[src])
		return c
	}
	if row := s.store.row; row.inc != none && row.claim != none {
		c := claim(row.src, row.owner)
		w.Set("claimed", true, c)
		w.Set("counted", true, c)
	}
	for n := range s.slots {
		for _, l := range s.slots[n] {
			if l.stage == slotFree {
				continue
			}
			c := claim(l.src, uint8(n)) //nolint:gosec // two nodes
			w.Set("held", l.stage == slotHeld, c)
			w.Set("sent", l.stage != slotHeld, c)
			w.Set("acked", l.stage == slotAcked, c)
			w.Set("out", l.stage == slotAcked, c)
		}
	}
	if s.late.kind == lateDelete && s.store.row.is(s.late.inc, s.late.by) {
		w.Set("asked", true, contents[s.store.row.src])
	}
	return w
}
