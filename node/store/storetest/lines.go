package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// lineCases are about messages that stand in lines: see node.Turn.
func lineCases() []testCase {
	return []testCase{
		{"line/one after the other", lineOneByOne},
		{"line/by deadline, then id", lineOrder},
		{"line/of one lane and one name", lineOthers},
		{"line/behind one that was put off", lineBehindLater},
		{"line/behind one that somebody holds", lineBehindClaimed},
		{"line/one that came first, while another is out", lineInTheWay},
		{"line/what was put off keeps its due time", lineTried},
		{"line/who is first by then is not put off", lineFirst},
		{"line/who stands back brings the first one", lineBrings},
		{"line/what is claimed keeps its claim", lineHeld},
		{"line/only what is settled makes room", lineReset},
		{"line/an occurrence stands at its new deadline", lineRearm},
		{"line/instructions move it", lineInstructed},
		{"line/a replacement leaves it, or comes to it", lineReplaced},
		{"line/nothing is claimed when it is stored", lineStored},
		{"line/a long one", lineLong},
	}
}

// queue returns n messages of one line, due at noon and each a millisecond later than the one before.
func (s *subject) queue(n int) []node.Message {
	list := s.messages(n)
	for i := range list {
		list[i].Line = uuid.UUID{15: 1}
	}
	return list
}

// turns claims all that falls due until then, and checks whose turn it is.
func (s *subject) turns(owner uuid.UUID, until time.Time, want ...string) []node.Ready {
	s.Helper()
	claimed := s.claim(owner, until)
	got := make([]string, len(claimed))
	for i := range claimed {
		got[i] = claimed[i].ID + []string{"", " behind", " in the way"}[claimed[i].Turn]
	}
	s.check("turns", fmt.Sprintf("%q", got), fmt.Sprintf("%q", append([]string{}, want...)))
	return claimed
}

// standBack has claimed messages stand back until the end of time.
func (s *subject) standBack(claimed ...node.Ready) {
	s.Helper()
	for _, r := range claimed {
		s.check("stand back", s.release(node.Release{Claim: r.Claim, Due: latest(), Unsent: true, Behind: true}),
			[]bool{true})
	}
}

// unsent gives claims back as they are, under which nothing was tried.
func (s *subject) unsent(claimed ...node.Ready) {
	s.Helper()
	for _, r := range claimed {
		s.check("reset", s.release(node.Release{Claim: r.Claim, Unsent: true}), []bool{true})
	}
}

func lineOneByOne(s *subject) {
	list := s.queue(3)
	s.insert(list[2], list[0], list[1])
	first := s.turns(alice(), latest(), list[0].ID, list[1].ID+" behind", list[2].ID+" behind")
	s.standBack(first[1:]...)
	s.turns(bob(), latest().Add(-time.Microsecond))
	for i := range list {
		s.check("delete", s.delete(list[i].Ref()), []bool{true})
		if i+1 < len(list) {
			s.checkStored("the next", list[i+1].Ref(), &memory.Row{Message: list[i+1], Due: list[i+1].Deadline})
			s.turns(bob(), list[i+1].Deadline.Add(-time.Microsecond))
			next := s.turns(bob(), list[i+1].Deadline, list[i+1].ID)
			s.check("attempts", next[0].Attempts, 1)
			s.unsent(next...)
		}
	}
	s.insert(list[1])
	s.turns(alice(), latest(), list[1].ID)
}

func lineOrder(s *subject) {
	list := s.queue(4)
	list[0].ID, list[1].ID, list[2].ID, list[3].ID = "c", "B", "b", "a"
	for i := range 3 {
		list[i].Deadline = noon()
	}
	list[3].Deadline = noon().Add(time.Microsecond)
	s.insert(list...)
	out := s.turns(alice(), latest(), "B", "b behind", "c behind", "a behind")
	s.standBack(out[1:]...)
	for _, next := range []string{"b", "c", "a"} {
		s.turns(bob(), latest().Add(-time.Microsecond)) // nobody comes forward by himself
		s.delete(out[0].Ref())
		out = s.turns(alice(), noon().Add(time.Second), next)
	}
}

func lineOthers(s *subject) {
	list := s.queue(5)
	list[1].Line = uuid.UUID{15: 2}
	list[2].Lane = "other"
	list[3].Line, list[4].Line = uuid.Nil, uuid.Nil
	s.insert(list...)
	claimed := s.turns(alice(), latest(), list[0].ID, list[1].ID, list[2].ID, list[3].ID, list[4].ID)
	for _, r := range claimed[1:] {
		s.check("put off", s.release(node.Release{Claim: r.Claim, Due: latest(), Unsent: true}), []bool{true})
	}
	s.check("delete", s.delete(list[0].Ref()), []bool{true})
	for _, m := range list[1:] {
		s.checkStored("nobody else comes forward", m.Ref(), &memory.Row{Message: m, Due: latest()})
	}
}

func lineBehindLater(s *subject) {
	list := s.queue(2)
	s.insert(list...)
	first := s.claimWithin(alice(), latest(), share(1, 1))
	s.check("put off", s.release(node.Release{Claim: first[0].Claim, Due: noon().Add(time.Hour)}), []bool{true})
	s.turns(bob(), noon().Add(time.Minute), list[1].ID+" behind")
}

func lineBehindClaimed(s *subject) {
	list := s.queue(2)
	s.insert(list...)
	s.check("first", len(s.claimWithin(alice(), latest(), share(1, 1))), 1)
	s.turns(bob(), latest(), list[1].ID+" behind")
	s.turns(alice(), latest())
}

func lineInTheWay(s *subject) {
	list := s.queue(3)
	s.insert(list[1])
	out := s.turns(alice(), latest(), list[1].ID)
	s.insert(list[0], list[2])
	for _, owner := range []uuid.UUID{bob(), alice()} {
		claimed := s.turns(owner, latest(), list[0].ID+" in the way", list[2].ID+" behind")
		s.unsent(claimed...)
	}
	claimed := s.turns(bob(), latest(), list[0].ID+" in the way", list[2].ID+" behind")
	s.unsent(claimed[0])
	s.standBack(claimed[1])
	s.check("delete", s.delete(out[0].Ref()), []bool{true})
	s.turns(bob(), noon(), list[0].ID)
	s.turns(bob(), latest().Add(-time.Microsecond))
}

func lineTried(s *subject) {
	list := s.queue(3)
	s.insert(list...)
	claimed := s.claim(alice(), latest())
	later := noon().Add(time.Hour)
	s.standBack(claimed[1])
	again := s.claim(bob(), latest())
	s.check("reset", s.release(
		node.Release{Claim: again[0].Claim, Due: later, Unsent: true},
		node.Release{Claim: claimed[2].Claim, Due: later, Unsent: true, Behind: true},
	), []bool{true, true})
	s.delete(list[0].Ref())
	s.turns(bob(), later.Add(-time.Microsecond))
	s.turns(bob(), later, list[1].ID, list[2].ID+" behind")
}

func lineFirst(s *subject) {
	list := s.queue(2)
	alone := s.message("alone")
	s.insert(append(list, alone)...)
	claimed := s.claim(alice(), latest())
	s.delete(list[0].Ref())
	slices.SortFunc(claimed, func(a, b node.Ready) int { return strings.Compare(a.ID, b.ID) })
	s.standBack(claimed[0], claimed[2])
	s.turns(bob(), noon().Add(time.Second), "alone", list[1].ID)
}

// Nobody is settled when the first of a line is cancelled, and so nobody brings the next one: whoever looks next does.
func lineBrings(s *subject) {
	list := s.queue(3)
	s.insert(list...)
	claimed := s.claim(alice(), latest())
	s.standBack(claimed[1])
	later := noon().Add(time.Hour)
	s.check("stand back", s.release(node.Release{Claim: claimed[2].Claim, Due: later, Unsent: true, Behind: true}),
		[]bool{true})
	s.unsent(claimed[0])
	s.check("cancel", s.instruct(instruction(node.Cancel, list[0], nil))[0].Outcome, node.Cancelled)
	s.turns(bob(), later.Add(-time.Microsecond))
	s.standBack(s.turns(bob(), later, list[2].ID+" behind")...)
	s.turns(bob(), list[1].Deadline, list[1].ID)
}

func lineHeld(s *subject) {
	list := s.queue(2)
	s.insert(list...)
	claimed := s.claim(alice(), latest())
	s.delete(list[0].Ref())
	s.check("claims", s.expired(), []node.Claim{claimed[1].Claim})
	s.check("reset", s.reset(claimed[1].Claim), []bool{true})

	// Nor does the due time change of one that has stood back, and is claimed once more.
	later := s.queue(4)[2:]
	later[0].Line, later[1].Line = uuid.UUID{15: 2}, uuid.UUID{15: 2}
	s.insert(later...)
	out := s.claimWithin(alice(), later[0].Deadline, share(9, 1<<20))
	put := later[1].Deadline.Add(time.Hour)
	for range 2 {
		for _, r := range s.claimWithin(bob(), put, share(9, 1<<20)) {
			if r.ID == later[1].ID {
				s.check("stand back", s.release(node.Release{Claim: r.Claim, Due: put, Unsent: true, Behind: true}),
					[]bool{true})
			}
		}
	}
	again := s.claimWithin(bob(), put, share(9, 1<<20))
	for _, r := range out {
		s.delete(r.Ref())
	}
	for _, r := range again {
		s.check("reset", s.reset(r.Claim), []bool{true})
	}
	s.turns(alice(), put.Add(-time.Microsecond))
	s.turns(alice(), put, later[1].ID)
}

func lineReset(s *subject) {
	list := s.queue(2)
	s.insert(list...)
	claimed := s.claim(alice(), latest())
	s.check("put off", s.release(node.Release{Claim: claimed[0].Claim, Due: latest(), Unsent: true}), []bool{true})
	s.standBack(claimed[1])
	other := list[0]
	other.Incarnation = s.incarnation()
	s.check("delete of another incarnation", s.delete(other.Ref()), []bool{false})
	s.turns(bob(), latest().Add(-time.Microsecond))
}

func lineRearm(s *subject) {
	list := s.queue(2)
	list[0].Recurrence = node.Recurrence{Series: "every 1h", Sequence: 1, At: list[0].Deadline}
	s.insert(list...)
	claimed := s.turns(alice(), latest(), list[0].ID, list[1].ID+" behind")
	s.standBack(claimed[1])
	next, following := s.following(list[0], noon().Add(time.Hour))
	s.check("rearm", s.rearm(next), []node.Settled{node.Rearmed})
	s.turns(bob(), list[1].Deadline, list[1].ID)
	s.standBack(s.turns(bob(), next.At, list[0].ID+" behind")...)
	s.check("delete", s.delete(list[1].Ref()), []bool{true})
	s.turns(bob(), next.At, list[0].ID)

	third := s.queue(3)[2]
	s.insert(third)
	third.Deadline = next.At.Add(time.Hour)
	third.Incarnation = s.incarnation()
	s.instruct(instruction(node.Reschedule, third, nil))
	s.standBack(s.turns(bob(), latest(), third.ID+" behind")...)
	s.check("the next one ends", s.rearm(node.Next{Of: following.Ref()}), []node.Settled{node.Removed})
	s.turns(bob(), third.Deadline, third.ID)
}

func lineInstructed(s *subject) {
	list := s.queue(3)
	s.insert(list...)
	later := list[0]
	later.Incarnation, later.Deadline = s.incarnation(), noon().Add(time.Minute)
	apart := list[1]
	apart.Incarnation, apart.Line = s.incarnation(), uuid.UUID{15: 2}
	s.instruct(instruction(node.Reschedule, later, nil), instruction(node.Replace, apart, nil))
	claimed := s.turns(alice(), latest(), list[1].ID, list[2].ID, list[0].ID+" behind")
	s.unsent(claimed...)
	gone := list[2]
	s.check("cancel", s.instruct(instruction(node.Cancel, gone, nil))[0].Outcome, node.Cancelled)
	s.turns(alice(), latest(), list[1].ID, list[0].ID)
}

func lineReplaced(s *subject) {
	list := s.queue(4)
	list[2].Line = uuid.Nil
	s.insert(list...)
	leaves, comes, stays := list[1], list[2], list[3]
	for _, m := range []*node.Message{&leaves, &comes, &stays} {
		m.Incarnation = s.incarnation()
	}
	leaves.Line, comes.Line = uuid.Nil, list[0].Line
	s.instruct(instruction(node.Replace, leaves, nil), instruction(node.Replace, comes, nil),
		instruction(node.Replace, stays, nil))
	s.turns(alice(), latest(), list[0].ID, leaves.ID, comes.ID+" behind", stays.ID+" behind")
}

func lineStored(s *subject) {
	list := s.queue(1)
	result := s.insertAll(alice(), submission{list[0], true})
	s.check("result", result, []node.ItemResult{{Outcome: node.Scheduled}})
	s.check("claims", len(s.expired()), 0)
	replaced := list[0]
	replaced.Incarnation = s.incarnation()
	item := past(instruction(node.Replace, replaced, nil))
	item.Claim = true
	s.check("replace", s.instructPast(item), []node.ItemResult{{Outcome: node.Replaced}})
	s.turns(alice(), latest(), list[0].ID)
}

// A line of many, and many of one message each: who is claimed is asked for all at once.
func lineLong(s *subject) {
	list := s.queue(1200)
	for i := 600; i < len(list); i++ {
		list[i].Line = uuid.UUID{14: byte(i >> 8), 15: byte(i), 0: 1}
	}
	s.insert(list...)
	want := make([]string, len(list))
	for i := range list {
		if want[i] = list[i].ID; i > 0 && i < 600 {
			want[i] += " behind"
		}
	}
	s.turns(alice(), latest(), want...)
}
