package proof

import "slices"

// Ours is the algorithm of docs/ALGORITHM.md.
func Ours() *System {
	return &System{
		Sorts:   []Sort{Node, Name, Incarnation, Claim, Record, Partition, Offset, Epoch, Time, Image},
		Symbols: symbols(), Axioms: axioms(), Initial: initial(), Transitions: transitions(),
		Invariant: invariant(), Promises: promises(),
	}
}

// axioms returns what is true of orders, and that a record is named by its place.
func axioms() []Named {
	var all []Named
	for order, sort := range []Sort{Offset, Epoch} {
		less := []string{"lower offset", "lower epoch"}[order]
		u, v, w := Var("u", sort), Var("v", sort), Var("w", sort)
		all = append(all,
			Named{Name: less + " is irreflexive", Formula: ForAll(Not(before(less, u, u)), u)},
			Named{Name: less + " is transitive", Formula: ForAll(
				Implies(And(before(less, u, v), before(less, v, w)), before(less, u, w)), u, v, w)},
			Named{Name: less + " is total", Formula: ForAll(
				Or(before(less, u, v), before(less, v, u), Equal(u, v)), u, v)},
		)
	}
	return append(all, Named{Name: "a record has its place for itself", Formula: ForAll(Implies(
		And(Equal(partition(q()), partition(r())), Equal(offset(q()), offset(r())), Equal(epoch(q()), epoch(r()))),
		Equal(q(), r())), q(), r())})
}

// initial returns what is true before anything has happened: nothing but that each partition has a beginning.
func initial() []Named {
	var all []Named
	for _, symbol := range symbols() {
		if symbol.Rigid {
			continue
		}
		var of []Expr
		for at, sort := range symbol.Args {
			of = append(of, Var("x"+string(rune('0'+at)), sort))
		}
		what := Not(is(symbol.Name, of...))
		if symbol.Name == "written" {
			what = Or(what, is("origin", of...))
		}
		all = append(all, Named{Name: symbol.Name, Formula: ForAll(what, of...)})
	}
	return all
}

// comesOut says that an incarnation has come out, or is excused from it for good.
func comesOut(i Expr) Expr { return Or(is("appeared", i), And(is("given up", i), is("may end", i))) }

// isOver says the same, or that it was passed over.
func isOver(i Expr) Expr { return Or(comesOut(i), And(is("passed", i), is("passing", i))) }

// noMore says that nothing has come out under a claim, and that no publish is on its way, unless it was made before the
// store was set back, or the lineage began.
func noMore(c Expr) Expr {
	return Or(is("old", c), And(Not(is("out", c)), Or(is("failed", c), Not(is("sent", c)))))
}

// promises returns the statements about states that follow.
func promises() []Named {
	s := store()
	all := []Named{
		{
			"S1", "what was inserted is stored, or has come out, or an instruction has ended it, or it is excused",
			whatWasInserted(s),
		},
		{"S2", "what was settled has come out, or was passed over or given up", ForAll(
			Implies(is("settled", i()), isOver(i())), i())},
		{
			"S3", "there is at most one claim on a row, and none on anything else; none is made early; and what is " +
				"published was given",
			ForAll(And(Implies(is("claimed", c()), is("stored", on(c()))),
				Implies(And(is("claimed", c()), is("claimed", d()), Equal(on(c()), on(d()))), Equal(c(), d())),
				Implies(And(is("claimed", c()), is("taken off", c())), is("old", c())),
				Not(is("early", c())), Implies(is("sent", c()), is("given", c()))), c(), d()),
		},
		{"S4", "a claim that was taken off had expired, or its owner gave it back", ForAll(
			Implies(is("taken off", c()), Or(expired(c()), is("gave back", c()))), c())},
		{
			"S5", "nothing is published twice under one claim, or under two unless one was taken off, or is old",
			ForAll(And(Not(is("resent", c())), Implies(
				And(is("sent", c()), is("sent", d()), Equal(on(c()), on(d())), Not(Equal(c(), d()))),
				Or(is("taken off", c()), is("taken off", d()), is("old", c()), is("old", d())))), c(), d()),
		},
		{"S9", "what has come out was in the store", ForAll(Implies(is("appeared", i()), is("drawn", i())), i())},
		{"S10", "what is committed lies behind the position", committedBehind()},
		{"S11", "there is at most one row of a name", oneRow(s)},
		{"S12", "what is dead holds nothing, and claims are of nodes that have started", ForAll(And(
			Implies(is("dead", owner(c())), Not(Or(is("held", c()), is("acked", c())))),
			Implies(is("made", c()), is("started", owner(c())))), c())},
		{"S13", "no publish begins under a claim that has expired", ForAll(Not(is("sent late", c())), c())},
		{"S14", "when a delete was executed, the incarnation is gone", ForAll(
			Implies(is("executed", i()), Not(is("stored", i()))), i())},
		{"S17", "no record takes effect twice in a lineage", ForAll(Not(is("twice", r())), r())},
		{
			"S18", "what Kafka has behind a position is taken in; and what was taken in was stored or covered",
			And(noGap(s), takenIsStored(s), coveredByStored(s)),
		},
		{"S19", "what does not come out was not published in this lineage, and no publish of it begins", ForAll(Implies(
			And(is("never", i()), Equal(on(c()), i())), And(noMore(c()),
				Implies(And(is("held", c()), Not(expired(c()))), is("unseen")))), i(), c())},
		{"S20", "what somebody was told to come out is stored, or has come out, or was replaced or given up", ForAll(
			Implies(is("promised", i()), Or(is("stored", i()), comesOut(i()), is("replaced", i()))), i())},
		{
			"S21",
			"the outcome is stored with its effect; and what was replaced comes out only if outcomes say that it may",
			And(outcomesAreStored(s), ForAll(Implies(
				And(is("stored", j()), is("heir", j(), i()), Not(is("former", j())), Equal(on(c()), i())),
				noMore(c())), i(), j(), c())),
		},
		{"S22", "an occurrence comes after the one before it, in one line, and none after the last", ForAll(And(
			Implies(is("follows", j(), i()), isOver(i())),
			Implies(is("last", i()), Not(is("follows", j(), i()))), oneLine()), i(), j(), k())},
	}
	for at := range all {
		all[at].Says = all[at].Says + "."
	}
	return all
}

func committedBehind() Expr {
	return ForAll(Implies(And(is("committed", r()), is("at", l()), Equal(partition(r()), partition(l()))),
		behind(r(), l())), r(), l())
}

func whatWasInserted(v kept) Expr {
	return v.all(Implies(v.is("brought", i()), Or(v.is("stored", i()), v.is("ended", i()), isOver(i()))), i())
}

func oneRow(v kept) Expr {
	return v.all(Implies(And(v.is("stored", i()), v.is("stored", j()), Equal(name(i()), name(j()))), Equal(i(), j())),
		i(), j())
}

func noGap(v kept) Expr {
	return v.all(Implies(And(is("present", r()), v.is("at", l()), behind(r(), l())), v.is("taken", r())), r(), l())
}

func takenIsStored(v kept) Expr {
	return v.all(Implies(And(v.is("taken", r()), is("submits", r())),
		Or(v.is("covered", r()), Exists(And(is("brings", i(), r()), v.is("brought", i())), i()))), r())
}

func coveredByStored(v kept) Expr {
	return v.all(Implies(v.is("covered", r()), Exists(And(Equal(name(i()), about(r())), v.is("brought", i())), i())),
		r())
}

func outcomesAreStored(v kept) Expr {
	return v.all(Implies(And(v.is("taken", r()), is("wants", r())),
		Exists(And(is("tells", i(), r()), v.is("brought", i())), i())), r())
}

// oneLine says that of two occurrences that come after a third one comes after the other, unless one of them was moved
// or removed before it came out.
func oneLine() Expr { return line(store()) }

func line(v kept) Expr {
	return Implies(And(v.is("follows", j(), i()), v.is("follows", k(), i())),
		Or(Equal(j(), k()), v.is("follows", j(), k()), v.is("follows", k(), j()), v.is("ended", j()),
			v.is("ended", k())))
}

// invariant returns the invariant. What it says of the store it says of the images, too, since the store may be set
// back to each of them.
func invariant() []Named {
	now := slices.Concat(claims(), outcomes(), deliveries())
	for _, of := range rows() {
		now = append(now, Named{of.name, of.says, of.holds(store())},
			Named{
				of.name + imaged, "The same of an image of the store: it may be set back to it.",
				of.holds(image()),
			})
	}
	return now
}

// claims returns what is true of claims.
func claims() []Named {
	fresh := And(is("made", c()), Not(is("old", c())))
	two := And(is("made", c()), is("made", d()), Equal(on(c()), on(d())), Not(Equal(c(), d())))
	each := func(name string, formula Expr, says string) Named { return Named{name, says, ForAll(formula, c())} }
	return []Named{
		each("starters claim", Implies(is("made", c()), is("started", owner(c()))), "S12, its second half."),
		each("the dead hold nothing", Implies(is("dead", owner(c())), Not(Or(is("held", c()), is("acked", c())))),
			"S12, its first half: what a process holds ends with it."),
		each("never early", Not(is("early", c())), "S3: no claim is made before the store has caught up."),
		each("never late", Not(is("sent late", c())), "S13: no publish begins under an expired claim."),
		each("never again", Not(is("resent", c())), "S5: a claim leads to one publish."),
		each("held is unpublished", Implies(is("held", c()), Not(is("sent", c()))),
			"What is on a schedule was not published; otherwise it could be published twice under one claim."),
		each("held is given", Implies(is("held", c()), is("given", c())),
			"What is on a schedule was given, and is not given again."),
		each("sent is given", Implies(is("sent", c()), is("given", c())), "S3: a node publishes what it was given."),
		each("given is made", Implies(is("given", c()), is("made", c())),
			"Nobody is given a claim that the store has not made."),
		each("made is drawn", Implies(is("made", c()), is("drawn", on(c()))), "Claims are on what was stored."),
		each("made is brought", Implies(fresh, is("brought", on(c()))),
			"As long as the store is not set back it remembers on what it has made claims."),
		each("claims stand or were taken off", Implies(And(fresh, is("stored", on(c()))),
			Or(is("claimed", c()), is("taken off", c()))),
			"As long as the store is not set back a claim stays on its row until a reset takes it off."),
		{
			"one after the other", "Of two claims on one incarnation one was taken off, or is from before a set-back.",
			ForAll(Implies(two, Or(is("taken off", c()), is("taken off", d()), is("old", c()), is("old", d()))), c(),
				d()),
		},
		each("resets are justified", Implies(is("taken off", c()), Or(expired(c()), is("gave back", c()))),
			"S4: a claim that was taken off had expired, or its owner gave it back."),
		each("requests to reset are justified", Implies(is("releasing", c()), Or(expired(c()), is("gave back", c()))),
			"S4, of requests that are on their way."),
		each("releases are of owners", Implies(is("unsent", c()), is("gave back", c())),
			"S4, of releases on their way."),
		each("not counted is given back unsent", Implies(And(fresh, Not(is("counted", c()))), is("unsent", c())),
			"A claim stops counting as an attempt only by a release that says unsent."),
		each("unsent is known", Implies(is("unsent", c()), And(is("given", c()), Not(is("held", c())),
			Or(Not(is("sent", c())), is("failed", c())))),
			"Who gives a claim back as unsent knows it: nothing was published under it, or for certain in vain, and "+
				"nothing will be."),
		each("what was taken off stays off", Implies(And(is("claimed", c()), is("taken off", c())), is("old", c())),
			"S3: no claim is made twice, so that what is asked of one is not done to another."),
		each("taken off is made", Implies(is("taken off", c()), is("made", c())),
			"S3, and so no new claim was taken off before."),
		each("out is sent", Implies(is("out", c()), is("sent", c())), "What was appended under a claim was published."),
		each("failed is not out", Implies(is("failed", c()), Not(is("out", c()))),
			"What has failed for certain never comes out."),
		each("old claims expire", Implies(is("old", c()), Or(is("unseen"), is("suspect"), is("holding"), expired(c()))),
			"Once a lineage takes records in, no claim from before it is young."),
	}
}
