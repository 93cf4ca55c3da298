package proof

import "fmt"

// Variant is a literal reading of the original, or another way that looks just as good, and that the proof refutes.
type Variant struct {
	// Name is for the command line, and Of what it deviates from: a deviation of docs/ALGORITHM.md, or a rule.
	Name, Of string

	// Says is what it does instead.
	Says string

	// Breaks is a conjunct of the invariant that one of its steps breaks, and By the step.
	Breaks, By string

	change func(s *System)
}

// System returns the system of the variant.
func (v *Variant) System() *System {
	s := Ours()
	v.change(s)
	return s
}

// lacks returns a change that removes a guard.
func lacks(transition, guard string) func(s *System) {
	return func(s *System) {
		t := s.Transition(transition)
		before := len(t.Guards)
		*t = *s.Without(Removal{Transition: transition, Name: guard}).Transition(transition)
		if len(t.Guards) == before {
			panic(fmt.Sprintf("proof: %s has no guard %q", transition, guard))
		}
	}
}

// instead returns a change that gives a relation another meaning in a transition.
func instead(transition string, update Update) func(s *System) {
	return func(s *System) {
		t := s.Transition(transition)
		for at := range t.Update {
			if t.Update[at].Symbol == update.Symbol {
				t.Update[at] = update
				return
			}
		}
		panic(fmt.Sprintf("proof: %s does not change %q", transition, update.Symbol))
	}
}

// leaves returns a change by which a transition does not change a relation.
func leaves(transition, relation string) func(s *System) {
	return func(s *System) {
		symbol, _ := s.Symbol(relation)
		var of []Expr
		for at, sort := range symbol.Args {
			of = append(of, Var("x"+string(rune('0'+at)), sort))
		}
		instead(transition, becomes(relation, is(relation, of...), of...))(s)
	}
}

// guards returns a change that gives a guard another meaning.
func guards(transition, name string, formula Expr) func(s *System) {
	return func(s *System) {
		t := s.Transition(transition)
		for at := range t.Guards {
			if t.Guards[at].Name == name {
				t.Guards[at].Formula = formula
				return
			}
		}
		panic(fmt.Sprintf("proof: %s has no guard %q", transition, name))
	}
}

// adds returns a change by which there is another transition.
func adds(t Transition) func(s *System) {
	return func(s *System) { s.Transitions = append(s.Transitions, t) }
}

// Variants returns all variants.
func Variants() []Variant { //nolint:funlen // a table
	noClaim := Not(Exists(And(Equal(on(d()), j()), is("claimed", d())), d()))
	kafka := Not(is("past", r()))
	return []Variant{
		{
			Name: "delete-by-id", Of: "D2", Says: "a delete names the id, and removes whatever has it",
			Breaks: "settled is over", By: "delete",
			change: func(s *System) {
				named := And(Equal(name(x()), name(i())), is("stored", x()))
				instead("delete", becomes("stored", And(is("stored", x()), Not(Equal(name(x()), name(i())))), x()))(s)
				instead("delete", becomes("settled", Or(is("settled", x()), named), x()))(s)
			},
		},
		{
			Name: "delete-if-claimed", Of: "D2, a false fence", Says: "a delete spares what somebody has claimed since",
			Breaks: "deleted is gone", By: "delete",
			change: func(s *System) {
				spared := Exists(And(Equal(on(d()), i()), is("claimed", d())), d())
				instead("delete", becomes("stored", And(is("stored", x()), Or(Not(Equal(x(), i())), spared)), x()))(s)
			},
		},
		{
			Name: "delete-if-owner", Of: "D2, a false fence",
			Says:   "a delete works only while the claim stands on the row",
			Breaks: "deleted is gone", By: "delete",
			change: func(s *System) {
				fenced := Exists(And(Equal(on(d()), i()), is("claimed", d()), is("acked", d())), d())
				instead("delete", becomes("stored", And(is("stored", x()), Or(Not(Equal(x(), i())), Not(fenced))),
					x()))(s)
			},
		},
		{
			Name: "incarnations-repeat", Of: "D2, H5", Says: "an incarnation repeats when the id does",
			Breaks: "deleted is gone", By: "schedule",
			change: lacks("schedule", "its incarnation is new to the store"),
		},
		{
			Name: "no-age-check", Of: "D3", Says: "a node publishes whatever it has claimed, however long ago",
			Breaks: "never late", By: "send", change: lacks("send", "it is young enough"),
		},
		{
			Name: "publish-past-store", Of: "D5", Says: "what has lapsed is published if it is not in the store",
			Breaks: "out was stored", By: "publish past the store",
			change: adds(Transition{
				Name: "publish past the store", Says: "%s has lapsed, and is not in the store: it is published",
				Params: []Expr{i()},
				Guards: []Named{guard("it is not there", Not(is("stored", i())))},
				Update: []Update{add("appeared", i())},
			}),
		},
		{
			Name: "node-clocks", Of: "D7", Says: "a detector looks at its own clock, and not at the store's",
			Breaks: "requests to reset are justified", By: "suspect",
			change: lacks("suspect", "the clock of the store has reached its expiry"),
		},
		{
			Name: "reset-by-id", Of: "H18", Says: "a reset takes off whatever claim stands on the row",
			Breaks: "resets are justified", By: "reset",
			change: func(s *System) {
				same := Equal(on(xc()), on(c()))
				instead("reset", becomes("claimed", And(is("claimed", xc()), Not(same)), xc()))(s)
				instead("reset", becomes("taken off", Or(is("taken off", xc()), And(same, is("claimed", xc()))),
					xc()))(s)
			},
		},
		{
			Name: "claim-the-claimed", Of: "H21", Says: "what is claimed is claimed again",
			Breaks: "one claim", By: "claim", change: lacks("claim", "the message waits"),
		},
		{
			Name: "delete-before-ack", Of: "H16", Says: "a node deletes what it has sent, before it is acknowledged",
			Breaks: "deletes are justified", By: "ask", change: guards("ask", "it is acknowledged", is("sent", c())),
		},
		{
			Name: "timeout-is-success", Of: "H15", Says: "a publish of unknown outcome counts as done",
			Breaks: "acknowledged is out", By: "acknowledge",
			change: guards("acknowledge", "it is appended", is("sent", c())),
		},
		{
			Name: "told-twice", Of: "S5", Says: "a node that repeats a take is told of its claim once more",
			Breaks: "held is unpublished", By: "learn", change: lacks("learn", "it has not heard of it"),
		},
		{
			Name: "unsent-unknown", Of: "S4",
			Says:   "a claim is given back as unsent after a publish of unknown outcome",
			Breaks: "unsent is known", By: "give back unsent",
			change: lacks("give back unsent", "nothing was, and nothing will be"),
		},
		{
			Name: "upsert", Of: "H33", Says: "a take replaces what is stored under the id",
			Breaks: "nothing is lost", By: "schedule",
			change: func(s *System) {
				lacks("schedule", "there is no message of that name")(s)
				isTold := And(is("wants", r()), Equal(x(), Var("a", Incarnation)))
				instead("schedule", becomes("stored", Or(And(is("stored", x()), Not(Equal(name(x()), about(r())))),
					Equal(x(), i()), isTold), x()))(s)
			},
		},
		{
			Name: "cancel-waiting", Of: "control",
			Says:   "whatever waits is cancelled, whether or not it may have been published",
			Breaks: "never is not claimed", By: "cancel",
			change: guards("cancel", "nobody was in a position to publish it, or was told that it comes out",
				And(Not(is("bound", j())), noClaim)),
		},
		{
			Name: "cancel-claimed", Of: "control", Says: "what is claimed is cancelled, as by a DELETE in SQL",
			Breaks: "never is not claimed", By: "cancel",
			change: guards("cancel", "nobody was in a position to publish it, or was told that it comes out",
				Not(is("bound", j()))),
		},
		{
			Name: "too-late-forgotten", Of: "control", Says: "too_late is an answer, and nothing is written down",
			Breaks: "promises are bound", By: "too late", change: leaves("too late", "bound"),
		},
		{
			Name: "fired-forgotten", Of: "control", Says: "what was fired can be cancelled until somebody claims it",
			Breaks: "promises are bound", By: "fire", change: leaves("fire", "bound"),
		},
		{
			Name: "unbound-cancel", Of: "control", Says: "a cancel does not look at what somebody was told",
			Breaks: "promises are kept", By: "cancel",
			change: guards("cancel", "nobody was in a position to publish it, or was told that it comes out",
				ForAll(Implies(Equal(on(d()), j()), And(Not(is("counted", d())), Not(is("claimed", d())))), d())),
		},
		{
			Name: "replace-silently", Of: "control", Says: "no outcome says that former content may appear",
			Breaks: "former content is told of", By: "replace", change: leaves("replace", "former"),
		},
		{
			Name: "former-forgotten", Of: "control",
			Says:   "only the replace says that former content may appear, none after it",
			Breaks: "former content is told of", By: "reschedule", change: leaves("reschedule", "former"),
		},
		{
			Name: "outcomes-apart", Of: "control", Says: "the outcome is not stored with its effect",
			Breaks: "outcomes are stored", By: "cancel",
			change: func(s *System) {
				leaves("cancel", "brought")(s)
				instead("cancel", becomes("stored", And(is("stored", x()), Not(Equal(x(), j()))), x()))(s)
			},
		},
		{
			Name: "offset-without-epoch", Of: "positions", Says: "what was taken in before is told by the offset alone",
			Breaks: "taken in once", By: "cover",
			change: guards("cover", "the record lies behind the position by its epoch and offset",
				Implies(kafka, before("lower offset", offset(l()), offset(r())))),
		},
		{
			Name: "gap-unnoticed", Of: "positions", Says: "a take that starts above the position is not refused",
			Breaks: "no gap", By: "cover", change: lacks("cover", "what is read begins at the position or below it"),
		},
		{
			Name: "starts-without-epoch", Of: "positions",
			Says:   "reading starts at an offset, and nobody looks at its epoch",
			Breaks: "reading skips nothing", By: "read",
			change: lacks("read", "the log up to there is the one that the epoch is of"),
		},
		{
			Name: "take-creates-position", Of: "positions", Says: "a take creates a position that is missing",
			Breaks: "positions are assigned", By: "cover",
			change: lacks("cover", "its partition has a position"),
		},
		{
			Name: "position-at-committed", Of: "positions", Says: "a missing position is created anywhere in the log",
			Breaks: "no gap", By: "place", change: lacks("place", "nothing that Kafka has lies before it"),
		},
		{
			Name: "commit-first", Of: "H8", Says: "offsets are committed when records are polled",
			Breaks: "committed lies behind", By: "commit", change: lacks("commit", "it lies behind the position"),
		},
		{
			Name: "takes-while-holding", Of: "lineages",
			Says:   "records are taken in while claims from before the lineage may be held",
			Breaks: "never is after the hold time", By: "cancel",
			change: lacks("cancel", "no claim from before the lineage is held"),
		},
		{
			Name: "takes-while-suspect", Of: "lineages",
			Says:   "records are taken in although the server shows that it was set back",
			Breaks: "never is after the hold time", By: "cancel",
			change: lacks("cancel", "the store does not show that it was set back"),
		},
		{
			Name: "holds-too-short", Of: "lineages",
			Says:   "the hold time of a lineage ends before the claims from before it",
			Breaks: "old claims expire", By: "held for long",
			change: lacks("held for long", "all claims from before have expired"),
		},
		{
			Name: "no-catch-up", Of: "lineages", Says: "messages are claimed as soon as a lineage begins",
			Breaks: "never early", By: "claim", change: lacks("claim", "the store has caught up"),
		},
		{
			Name: "rearm-by-id", Of: "series", Says: "the next occurrence takes the place of whatever has the id",
			Breaks: "nothing is lost", By: "rearm",
			change: func(s *System) {
				lacks("rearm", "the occurrence is stored")(s)
				instead("rearm", becomes("stored", Or(And(is("stored", x()), Not(Equal(name(x()), name(i())))),
					Equal(x(), j())), x()))(s)
			},
		},
		{
			Name: "goes-on-stopped", Of: "series",
			Says:   "the node decides what follows, and does not know of the cancel",
			Breaks: "nothing follows the last", By: "rearm", change: lacks("rearm", "it is not stopped"),
		},
		{
			Name: "rearm-first", Of: "series", Says: "the next occurrence takes its place before this one is published",
			Breaks: "one after the other comes out", By: "rearm",
			change: lacks("rearm", "somebody who may has asked for it"),
		},
		{
			Name: "passes-over-promised", Of: "series",
			Says:   "an occurrence is passed over although somebody was told that it comes out",
			Breaks: "promises are kept", By: "passed over", change: lacks("passed over",
				"nobody was told that it comes out"),
		},
	}
}

// VariantByName finds a variant.
func VariantByName(name string) (*Variant, bool) {
	for _, v := range Variants() {
		if v.Name == name {
			return &v, true
		}
	}
	return nil, false
}
