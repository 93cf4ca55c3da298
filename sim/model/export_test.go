package model

import "fmt"

// Plain goes through a scope without the simplifications of canonical, renaming apart, and returns how many states that
// are, how many they become when simplified, how many the usual walk meets, and the first one that only one of the two
// walks has.
func Plain(rules Rules, scope Scope) (plain, simplified, usual int, odd string) {
	unreduced := search{machine: machine{rules: rules, scope: scope, plain: true}}
	unreduced.walk()
	reduced := search{machine: machine{rules: rules, scope: scope}}
	reduced.walk()
	met := map[key]bool{}
	for _, k := range reduced.keys {
		met[k] = true
	}
	image := map[key]bool{}
	for _, k := range unreduced.keys {
		s := unpack(k)
		reduced.machine.canonical(&s)
		image[s.pack()] = true
		if !met[s.pack()] && odd == "" {
			odd = fmt.Sprintf("only without simplification: %+v", s)
		}
	}
	for _, k := range reduced.keys {
		if !image[k] && odd == "" {
			odd = fmt.Sprintf("only with simplification: %+v", unpack(k))
		}
	}
	return len(unreduced.keys), len(image), len(reduced.keys), odd
}

// Packs reports whether each state of a scope is the same after it was packed and unpacked, and brought into its
// canonical form once more.
func Packs(scope Scope) bool {
	s := search{machine: machine{scope: scope}}
	s.walk()
	for _, k := range s.keys {
		at := unpack(k)
		if at.pack() != k {
			return false
		}
		if s.machine.canonical(&at); at.pack() != k {
			return false
		}
	}
	return true
}

// kinds are the names of the steps, in their order.
func kinds() []string {
	return []string{
		"submit", "assign", "poll", "take", "commit", "compare", "direct", "select", "claim", "begin", "publish",
		"give back", "delete", "suspect", "reset", "late", "drop", "connect", "hold over", "crash", "rebalance", "lag",
		"failover", "truncate", "recreate", "rewind",
	}
}

// Steps counts the steps of our algorithm in a scope, by their kind, outcome and option, and how often the world drains
// after both submissions were published.
func Steps(scope Scope) map[string]int {
	s := search{machine: machine{scope: scope}}
	s.walk()
	type what struct {
		action action
		late   uint8
	}
	steps := map[what]int{}
	count := map[string]int{}
	for _, k := range s.keys {
		at := unpack(k)
		if at.drained() && at.fired&3 == 3 {
			count["drained"]++
		}
		for _, step := range s.machine.next(&at) {
			steps[what{step.action, at.late.kind}]++
		}
	}
	for w, n := range steps {
		a := w.action
		name := kinds()[a.kind] + [...]string{"", " reply lost", " late"}[a.outcome]
		switch {
		case a.kind == actLate:
			name += " " + lateText(request{kind: w.late})
		case a.option != 0:
			name += fmt.Sprint(" ", a.option)
		}
		count[name] += n
	}
	return count
}
