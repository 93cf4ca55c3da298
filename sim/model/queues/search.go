package queues

// Result is what a walk has found.
type Result struct {
	States int

	// Broken is the property that a shortest way breaks, and Steps is that way; empty if none is broken.
	Broken Property
	Steps  []string
}

// Explore goes through all states, the nearest first, and ends at the first step that breaks a safety property. If none
// does, it looks for a state from which the tasks cannot come to their end any more.
func Explore(rules Rules) Result {
	m := &machine{rules: rules}
	begin := state{outer: true, inner: true, changes: 3, crashes: 1}
	walk := &walk{places: map[state]int{begin: 0}, states: []state{begin}, from: []int{-1}, by: []string{""}}
	var before [][]int // of each state, those from which it is reached without a fault
	before = append(before, nil)
	for at := 0; at < len(walk.states); at++ {
		s := walk.states[at]
		for _, next := range m.next(&s) {
			if next.broken != "" {
				return Result{len(walk.states), next.broken, append(walk.way(at), next.name)}
			}
			place, seen := walk.places[next.to]
			if !seen {
				place = len(walk.states)
				walk.places[next.to] = place
				walk.states = append(walk.states, next.to)
				walk.from, walk.by = append(walk.from, at), append(walk.by, next.name)
				before = append(before, nil)
			}
			if !next.fault {
				before[place] = append(before[place], at)
			}
		}
	}
	if stuck := walk.stuck(before); stuck >= 0 {
		return Result{len(walk.states), Stuck, walk.way(stuck)}
	}
	return Result{States: len(walk.states)}
}

// walk is what was seen of the graph.
type walk struct {
	places map[state]int
	states []state
	from   []int
	by     []string
}

// way returns the steps that lead to a state.
func (w *walk) way(to int) []string {
	if w.from[to] < 0 {
		return nil
	}
	return append(w.way(w.from[to]), w.by[to])
}

// stuck returns the first state, with both queues open, from which the end is not reached without a fault; -1 for none.
func (w *walk) stuck(before [][]int) int {
	reached := make([]bool, len(w.states))
	var queue []int
	for at := range w.states {
		if w.states[at].over() {
			reached[at] = true
			queue = append(queue, at)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, earlier := range before[at] {
			if !reached[earlier] {
				reached[earlier] = true
				queue = append(queue, earlier)
			}
		}
	}
	for at := range w.states {
		if s := &w.states[at]; !reached[at] && s.inner && s.outer {
			return at
		}
	}
	return -1
}

// over reports whether all tasks are done by a completion or a time limit, and nothing waits to be requested.
func (s *state) over() bool {
	for _, t := range s.tasks {
		if t.status != done || t.promise {
			return false
		}
	}
	return true
}
