package sim

import "slices"

// mostAimed is how many runs an aim may take.
const mostAimed = 150

// aim keeps only the submissions of the id that the violation is about, and one fault, which it lets strike the calls
// that have to do with them, one after the other. What only leads a fault to its call, by the number of calls before or
// by the time that they take, can't be left out by itself:
//
//	node 1 delete 19: pause 2s                with 23 submissions, most of which serve to count up to 19
//	node 1 delete 1 of 281: pause 2s          does the same to submission 281 alone
func (s *shrinker) aim() {
	plan, focused := s.best.Plan, s.focused()
	if len(focused) == 0 || len(plan.Messages)+len(plan.Faults) <= len(focused)+1 {
		return
	}
	candidate := s.best
	candidate.Plan = &Plan{Messages: focused}
	calls := callsAbout(candidate, focused)
	for tried, i := 0, 0; i < len(plan.Faults); i++ {
		for _, at := range calls {
			f := plan.Faults[i]
			f.Node, f.Op, f.Nth, f.Of = at.Node, at.Op, at.Nth, at.Of
			if !slices.Contains(OpsOf(f.Kind), f.Op) {
				continue
			}
			if tried++; tried > mostAimed {
				return
			}
			candidate.Plan = &Plan{Messages: focused, Faults: []Fault{f}}
			if s.try(candidate) {
				return
			}
		}
	}
}

// callsAbout returns the calls of a run that have to do with some submissions, as the faults that would strike them:
// those that a plan can name by the submission, the first two of each kind, and the claims of one by their numbers.
func callsAbout(setup Setup, about []Submission) []Fault {
	var claims, calls []Fault
	var nodes []int
	waits := false // a claim on one of them, whose call comes next
	setup.Observe = func(step *Step) {
		concerns := slices.ContainsFunc(about, func(m Submission) bool {
			return slices.ContainsFunc(step.Messages, func(n int) bool { return submissionOf(n) == m.Number })
		})
		if concerns && step.Node > 0 && !slices.Contains(nodes, step.Node) {
			nodes = append(nodes, step.Node)
		}
		switch {
		case step.Kind == StepRow:
			waits = waits || concerns
		case step.Kind == StepApplied && step.Op == OpClaim && waits:
			claims = append(claims, Fault{Node: step.Node, Op: step.Op, Nth: step.Nth})
			waits = false
		case step.Kind == StepApplied:
			waits = false
		}
	}
	Run(setup)
	for _, node := range nodes {
		for _, m := range about {
			for _, op := range []Op{OpTake, OpPublish, OpCall, OpDelete, OpReset} {
				for nth := 1; nth <= 2; nth++ {
					calls = append(calls, Fault{Node: node, Op: op, Nth: nth, Of: m.Number})
				}
			}
		}
	}
	return append(claims, calls...)
}

// focused returns the submissions of the plan that have an id that the violation is about; nil if there is none.
func (s *shrinker) focused() []Submission {
	var ids []string
	messages := s.best.Plan.Messages
	for _, n := range s.result.Violation.Messages {
		for _, m := range messages {
			if m.Number == submissionOf(n) {
				ids = append(ids, m.ID)
			}
		}
		if len(ids) > 0 {
			break
		}
	}
	var focused []Submission
	for _, m := range messages {
		if slices.Contains(ids, m.ID) {
			focused = append(focused, m)
		}
	}
	return focused
}

// submissionOf returns the number of the submission that the number of an occurrence belongs to; any other as it is.
func submissionOf(number int) int {
	if number > firstOccurrence && number < firstAnswer {
		return (number - firstOccurrence) / maxOccurrences
	}
	return number
}
