package model

import (
	"math/bits"
	"slices"
)

// search is a breadth-first walk through the states of a machine. The states are numbered in the order in which they
// are met, which is the same in each run.
type search struct {
	machine machine
	want    Property // what to stop at

	keys    []key
	parents []uint32
	actions []uint16
	depth   int

	// table finds the number of a state by its key: open addressing, number+1, 0 where there is none.
	table []uint32

	// For L2: the states that each one leads to without a fault, all in one list; starts has where those of
	// each state begin.
	links  []uint32
	starts []uint32
}

// found is the end of a search.
type found struct {
	broken Property // of what was wanted; 0: nothing of it, anywhere
	path   []action // the shortest that breaks it
	states int
	depth  int // steps to the farthest state, when nothing was found
}

// walk goes through all states until one breaks what is wanted.
func (s *search) walk() found {
	s.table = make([]uint32, 1<<12)
	first := initial(&s.machine.scope)
	s.number(first.pack(), 0, 0)
	drain := s.want&(L2|L9) != 0
	last := 0                          // the last state of this depth
	for i := 0; i < len(s.keys); i++ { //nolint:intrange // the loop adds keys
		at := unpack(s.keys[i])
		if drain {
			s.starts = append(s.starts, uint32(len(s.links))) //nolint:gosec // far fewer than 2^32
		}
		for _, step := range s.machine.next(&at) {
			if broken := step.broken & s.want; broken != 0 {
				return found{broken: broken, path: append(s.path(i), step.action), states: len(s.keys)}
			}
			number := s.number(step.state.pack(), uint32(i), step.action.pack()) //nolint:gosec // far fewer than 2^32
			if drain && !step.action.fault() {
				s.links = append(s.links, number)
			}
		}
		if i == last && len(s.keys) > i+1 {
			s.depth++
			last = len(s.keys) - 1
		}
	}
	result := found{states: len(s.keys), depth: s.depth}
	if drain {
		if stuck, broken := s.stuck(); broken != 0 {
			result.broken, result.path = broken, s.path(stuck)
		}
	}
	return result
}

// number returns the number of a state, a new one if it was not met before.
func (s *search) number(k key, parent uint32, by uint16) uint32 {
	if len(s.keys)*3 > len(s.table)*2 {
		s.grow()
	}
	mask := uint64(len(s.table) - 1)
	at := hash(k) & mask
	for s.table[at] != 0 {
		if number := s.table[at] - 1; s.keys[number] == k {
			return number
		}
		at = (at + 1) & mask
	}
	number := uint32(len(s.keys)) //nolint:gosec // far fewer than 2^32
	s.table[at] = number + 1
	s.keys = append(s.keys, k)
	s.parents = append(s.parents, parent)
	s.actions = append(s.actions, by)
	return number
}

func (s *search) grow() {
	s.table = make([]uint32, 2*len(s.table))
	mask := uint64(len(s.table) - 1)
	for number, k := range s.keys {
		at := hash(k) & mask
		for s.table[at] != 0 {
			at = (at + 1) & mask
		}
		s.table[at] = uint32(number) + 1 //nolint:gosec // far fewer than 2^32
	}
}

// hash spreads keys. It has no seed: that nobody picks the states with malice is certain.
func hash(k key) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	h := uint64(a)
	for _, word := range k {
		high, low := bits.Mul64(h^word, b)
		h = high ^ low + a
	}
	return h
}

// path returns the steps that lead to a state.
func (s *search) path(number int) []action {
	var path []action
	for number != 0 {
		path = append(path, unpackAction(s.actions[number]))
		number = int(s.parents[number])
	}
	slices.Reverse(path)
	return path
}

// stuck returns the first state from which no drained state can be reached without a fault, and which of L2 and L9 that
// breaks, as far as it is wanted.
func (s *search) stuck() (number int, broken Property) {
	s.starts = append(s.starts, uint32(len(s.links))) //nolint:gosec // far fewer than 2^32
	drains := make([]bool, len(s.keys))
	for changed := true; changed; {
		changed = false
		for i := len(s.keys) - 1; i >= 0; i-- {
			if drains[i] {
				continue
			}
			at := unpack(s.keys[i])
			drains[i] = at.drained() || slices.ContainsFunc(s.links[s.starts[i]:s.starts[i+1]],
				func(number uint32) bool { return drains[number] })
			changed = changed || drains[i]
		}
	}
	for i, drain := range drains {
		if drain {
			continue
		}
		at := unpack(s.keys[i])
		broken := L2
		if s.machine.later(&at) {
			broken = L9
		}
		if broken&s.want != 0 {
			return i, broken
		}
	}
	return 0, 0
}
