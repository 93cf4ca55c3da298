package sim

import (
	"slices"
	"time"
)

// Shrinking is what Shrink has found.
type Shrinking struct {
	// Setup is the smallest setup found that breaks the same invariant, and Result what it gives.
	Setup  Setup
	Result Result

	// Runs is how many runs it took, and Events how many occurrences they had.
	Runs   int
	Events uint64
}

// The work of Shrink is bounded by what it has simulated, and not by a clock: a seed has to shrink to the same plan on
// every machine, however busy it is. Runs alone are no measure, for a large world takes a thousand times as long as a
// small one, and one that breaks nothing goes on where the one that was found has ended.
const (
	// shrinkEvents is after how many occurrences Shrink begins no other run. A core makes 65,000 to a million a second,
	// by what the judge has to do: so that is 20 seconds to 5 minutes of a core. Most failures are small long before.
	shrinkEvents = 20_000_000

	// shrinkRuns is how many runs it may make nevertheless.
	shrinkRuns = 20
)

// Shrink looks for a smaller plan that breaks the same invariant as a setup does: fewer faults, then fewer
// messages, then fewer nodes and simpler numbers, over and over until nothing can be left out. What counts is the
// name of the invariant: a smaller run may break it in another way. It gives up, with what it has, after so many
// runs, or sooner where they are long (shrinkEvents). Equal setups shrink to equal plans, on every machine.
func Shrink(setup Setup, most int) (Shrinking, bool) {
	return shrink(setup, &shrinker{most: most, mostEvents: shrinkEvents})
}

// shrink lets a shrinker, of which the bounds are given, work on a setup.
func shrink(setup Setup, s *shrinker) (Shrinking, bool) {
	first := Run(setup)
	if first.Violation == nil {
		return Shrinking{}, false
	}
	s.invariant, s.runs, s.events = first.Violation.Invariant, 1, first.Stats.Events
	setup.Observe = nil
	setup.Plan = first.Plan.Clone()
	setup.Options = withoutChance(setup.Options)
	s.best, s.result = setup, first
	// The plan replays the run that drew it. If it does not, there is nothing to shrink.
	if !s.try(setup) {
		return Shrinking{}, false
	}
	s.submissions()
	s.shrink()
	return Shrinking{s.best, s.result, s.runs, s.events}, true
}

// withoutChance sets back the options that say what is drawn, of which a plan is the outcome.
func withoutChance(o Options) Options {
	usual := DefaultOptions()
	o.Mix, o.FaultRate, o.Messages, o.Bursts, o.Horizon = nil, 0, usual.Messages, 0, usual.Horizon
	o.Reuse, o.Lapsed, o.Malformed, o.Poison = usual.Reuse, usual.Lapsed, usual.Malformed, usual.Poison
	return o
}

type shrinker struct {
	invariant          string
	best               Setup
	result             Result
	runs, most         int
	events, mostEvents uint64 // of all runs
}

// spent reports whether there is to be no other run.
func (s *shrinker) spent() bool {
	return s.runs >= s.most || s.events >= s.mostEvents && s.runs >= shrinkRuns
}

// try runs a candidate, and keeps it if it breaks the invariant.
func (s *shrinker) try(candidate Setup) bool {
	if s.spent() || candidate.Options.Validate() != nil {
		return false
	}
	s.runs++
	result := Run(candidate)
	s.events += result.Stats.Events
	if result.Violation == nil || result.Violation.Invariant != s.invariant {
		return false
	}
	// What has not struck is of no use.
	candidate.Plan = &Plan{Messages: candidate.Plan.Messages, Faults: slices.Clone(result.Plan.Faults)}
	s.best, s.result = candidate, result
	return true
}

// submissions keys the faults to submissions where it can: they then stay where they are when others go.
func (s *shrinker) submissions() {
	keyed := s.best
	keyed.rekey = true
	candidate := s.best
	candidate.Plan = Run(keyed).Plan.Clone()
	s.try(candidate)
}

// focus keeps only the submissions of the id that the violation is about, and tries other seeds until it happens to
// them alone: where a race decides, the others may have served for nothing but its timing.
func (s *shrinker) focus() {
	const seeds = 50
	focused := s.focused()
	if len(focused) == 0 || len(s.best.Plan.Messages) <= 3 {
		return
	}
	for n := range uint64(seeds) {
		candidate := s.best
		candidate.Options.Seed += n
		candidate.Plan = &Plan{Messages: focused, Faults: slices.Clone(s.best.Plan.Faults)}
		if s.try(candidate) {
			return
		}
	}
}

// shrink repeats all passes until a round changes nothing.
func (s *shrinker) shrink() {
	for !s.spent() {
		before := s.size()
		s.faults()
		s.messages()
		s.faults()
		s.earlier()
		s.collapse()
		s.focus()
		s.aim()
		s.nodes()
		s.numbers()
		if s.size() == before {
			return
		}
	}
}

// size tells setups apart: a round that leaves it as it is has changed nothing.
func (s *shrinker) size() [5]int64 {
	p, o := s.best.Plan, &s.best.Options
	var sum int64
	for _, f := range p.Faults {
		sum += int64(max(f.For, -f.For)) + int64(max(f.Count, -f.Count)) + int64(f.Nth)
	}
	for _, m := range p.Messages {
		sum += int64(max(m.In, -m.In)) + int64(m.At) + int64(len(m.Key)+m.Route)
	}
	return [5]int64{
		int64(len(p.Faults)), int64(len(p.Messages)), int64(o.Nodes + o.Partitions + o.Routes), sum, int64(o.Faulty),
	}
}

func (s *shrinker) faults() {
	shorten(len(s.best.Plan.Faults), func() int { return len(s.best.Plan.Faults) },
		func(from, to int) bool {
			candidate := s.best
			candidate.Plan = s.best.Plan.Clone()
			candidate.Plan.Faults = slices.Delete(candidate.Plan.Faults, from, to)
			return s.try(candidate)
		})
}

func (s *shrinker) messages() {
	shorten(len(s.best.Plan.Messages), func() int { return len(s.best.Plan.Messages) },
		func(from, to int) bool {
			candidate := s.best
			candidate.Plan = s.best.Plan.Clone()
			candidate.Plan.Messages = slices.Delete(candidate.Plan.Messages, from, to)
			return s.try(candidate)
		})
}

// collapse tries with one node, on which every call of a kind is the next one: with few faults left, their numbers can
// be guessed.
func (s *shrinker) collapse() {
	const most = 8
	faults := len(s.best.Plan.Faults)
	if faults > 2 || s.best.Options.Nodes == 1 {
		return
	}
	combinations := 1
	for range faults {
		combinations *= most
	}
	for n := range combinations {
		candidate := s.best
		candidate.Plan = s.best.Plan.Clone()
		candidate.Options.Nodes, candidate.Options.Fates = 1, ""
		for i := range candidate.Plan.Faults {
			f := &candidate.Plan.Faults[i]
			f.Node = min(f.Node, 1)
			f.Nth = 1 + n%most
			n /= most
		}
		if s.try(candidate) {
			return
		}
	}
}

// earlier lets faults strike earlier calls, so that what only served to count up to theirs can go.
func (s *shrinker) earlier() {
	for i := range s.best.Plan.Faults {
		if i >= len(s.best.Plan.Faults) {
			break // a candidate has lost some
		}
		for _, divisor := range []int{s.best.Plan.Faults[i].Nth, 4, 2} {
			nth := max(s.best.Plan.Faults[i].Nth/divisor, 1)
			if i < len(s.best.Plan.Faults) && s.with(func(p *Plan) { p.Faults[i].Nth = nth }) {
				break
			}
		}
		for i < len(s.best.Plan.Faults) && s.best.Plan.Faults[i].Nth > 1 &&
			s.with(func(p *Plan) { p.Faults[i].Nth-- }) {
		}
	}
}

// shorten takes parts out of a list of n, large parts first (delta debugging). without says whether the list
// can do without the part [from, to), which is then gone.
func shorten(n int, length func() int, without func(from, to int) bool) {
	for part := n; part > 0; part /= 2 {
		// From the end, so that what came first stays where it is.
		for to := length(); to > 0; {
			from := max(to-part, 0)
			without(from, to)
			to = min(from, length())
		}
	}
}

// nodes tries with fewer nodes, partitions and routes, with all nodes healed, and with clocks that are right.
func (s *shrinker) nodes() {
	for _, change := range []func(*Options){
		func(o *Options) { o.Fates = "" },
		func(o *Options) { o.Nodes = 1 },
		func(o *Options) { o.Nodes = 2 },
		func(o *Options) { o.Nodes-- },
		func(o *Options) { o.Partitions = 1 },
		func(o *Options) { o.Partitions-- },
		func(o *Options) { o.Routes = 1 },
		func(o *Options) { o.Skew, o.Drift, o.StoreSkew = 0, 0, 0 },
		func(o *Options) { o.DeadLetter, o.AdaptiveAdvance = false, false },
	} {
		candidate := s.best
		change(&candidate.Options)
		if candidate.Options.String() != s.best.Options.String() {
			s.try(candidate)
		}
	}
}

// numbers tries rounder numbers: each once a round, one simplification after the other.
func (s *shrinker) numbers() {
	for i := range s.best.Plan.Faults {
		if i >= len(s.best.Plan.Faults) {
			break // a candidate has lost some
		}
		for _, simpler := range simpler(s.best.Plan.Faults[i].For) {
			if i < len(s.best.Plan.Faults) && s.with(func(p *Plan) { p.Faults[i].For = simpler }) {
				break
			}
		}
	}
	for i := range s.best.Plan.Messages {
		m := s.best.Plan.Messages[i]
		s.with(func(p *Plan) { p.Messages[i].Key, p.Messages[i].Route = "", 0 })
		for _, simpler := range simpler(m.In) {
			if s.with(func(p *Plan) { p.Messages[i].In = simpler }) {
				break
			}
		}
		for _, simpler := range simpler(m.At) {
			if s.with(func(p *Plan) { p.Messages[i].At = simpler }) {
				break
			}
		}
	}
}

// with tries the plan with a change, unless that changes nothing.
func (s *shrinker) with(change func(*Plan)) bool {
	candidate := s.best
	candidate.Plan = s.best.Plan.Clone()
	change(candidate.Plan)
	if slices.Equal(candidate.Plan.Faults, s.best.Plan.Faults) &&
		slices.Equal(candidate.Plan.Messages, s.best.Plan.Messages) {
		return false
	}
	return s.try(candidate)
}

// simpler returns simpler times than d, the simplest first.
func simpler(d time.Duration) []time.Duration {
	var times []time.Duration
	for _, unit := range []time.Duration{10 * time.Second, time.Second, 100 * time.Millisecond, time.Millisecond} {
		if rounded := d.Round(unit); rounded != 0 && rounded != d {
			times = append(times, rounded)
		}
	}
	return times
}
