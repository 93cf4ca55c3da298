package proof

import "slices"

// guard names what a transition needs.
func guard(says string, formula Expr) Named { return Named{Name: says, Formula: formula} }

// becomes says what a relation is true of from now on.
func becomes(relation string, to Expr, of ...Expr) Update {
	return Update{Symbol: relation, Of: of, To: to}
}

// variableFor returns the variable that updates use for a thing like this one.
func variableFor(thing Expr) Expr {
	switch thing.sort {
	case Claim:
		return xc()
	case Record:
		return xr()
	default:
		return Var("x", thing.sort)
	}
}

// add makes a relation true of one thing more.
func add(relation string, thing Expr) Update {
	x := variableFor(thing)
	return becomes(relation, Or(is(relation, x), Equal(x, thing)), x)
}

// addOn makes a relation true of the incarnation of a claim.
func addOn(relation string, c Expr) Update {
	return becomes(relation, Or(is(relation, x()), Equal(x(), on(c))), x())
}

// drop makes a relation true of one thing less.
func drop(relation string, thing Expr) Update {
	x := variableFor(thing)
	return becomes(relation, And(is(relation, x), Not(Equal(x, thing))), x)
}

// none makes a relation true of nothing.
func none(relation string, sorts ...Sort) Update {
	var of []Expr
	for range sorts {
		of = append(of, Var("x", sorts[0]))
	}
	return becomes(relation, False(), of...)
}

// transitions returns all transitions: of Kafka and of the intake, of the nodes, and of the store.
func transitions() []Transition {
	return slices.Concat(logging(), taking(), living(), publishing(), settling(), restoring())
}

// logging is what happens to a log, and what is read of it.
func logging() []Transition {
	same := Equal(partition(xr()), partition(r()))
	return []Transition{
		{
			Name: "write", Says: "an application writes %s to an input topic", Params: []Expr{r()},
			Guards: []Named{
				guard("it comes after all records that its partition ever had", ForAll(
					Implies(And(is("written", xr()), same), lower(xr(), r())), xr())),
				guard("its offset is the highest", ForAll(
					Implies(And(is("present", xr()), same), before("lower offset", offset(xr()), offset(r()))), xr())),
			},
			Update: []Update{add("present", r()), add("written", r())},
		},
		{
			Name: "lose", Says: "Kafka loses the end of a log, from %s on", Params: []Expr{r()},
			Update: []Update{becomes("present", And(is("present", xr()), Not(And(same,
				Not(before("lower offset", offset(xr()), offset(r())))))), xr())},
		},
		{
			Name: "retain", Says: "retention deletes the beginning of a log, up to %s", Params: []Expr{r()},
			Update: []Update{becomes("present", And(is("present", xr()), Not(And(same,
				Not(before("lower offset", offset(r()), offset(xr())))))), xr())},
		},
		{
			Name: "read", Says: "a node reads %s, from behind %s on", Params: []Expr{r(), q()},
			Guards: []Named{
				guard("Kafka has the record", is("present", r())),
				guard("it is the next one that Kafka has", ForAll(Implies(And(is("present", xr()), same,
					before("lower offset", offset(xr()), offset(r()))),
					Not(before("lower offset", offset(q()), offset(xr())))), xr())),
				guard("the log up to there is the one that the epoch is of", ForAll(Implies(
					And(is("present", xr()), same, Not(before("lower offset", offset(q()), offset(xr())))),
					Not(before("lower epoch", epoch(q()), epoch(xr())))), xr())),
			},
			Update: []Update{becomes("read", Or(is("read", xr(), Var("y", Record)),
				And(Equal(xr(), r()), Equal(Var("y", Record), q()))), xr(), Var("y", Record))},
		},
		{
			Name: "place", Says: "an assignment gives a partition its first position, behind %s", Params: []Expr{q()},
			Guards: []Named{
				guard("it has none", Not(is("placed", partition(q())))),
				guard("it is a place in its log", is("written", q())),
				guard("nothing that Kafka has lies before it", ForAll(Implies(
					And(is("present", xr()), Equal(partition(xr()), partition(q()))), lower(q(), xr())), xr())),
			},
			Update: []Update{add("at", q()), becomes("placed", Or(is("placed", Var("x", Partition)),
				Equal(Var("x", Partition), partition(q()))), Var("x", Partition))},
		},
		{
			// What was never taken in, but lies before the first position, is committed as well: after an assignment.
			Name: "commit", Says: "a node commits the offset behind %s, the position being behind %s",
			Params: []Expr{r(), l()},
			Guards: []Named{
				guard("the position is there", is("at", l())),
				guard("it lies behind the position", behind(r(), l())),
			},
			Update: []Update{becomes("committed",
				If(same, Equal(xr(), r()), is("committed", xr())), xr())},
		},
	}
}

// living is the life and death of processes, and the course of time.
func living() []Transition {
	t := Var("t", Time)
	return []Transition{
		{
			Name: "start", Says: "%s starts", Params: []Expr{n()}, Update: []Update{add("started", n())},
		},
		{
			Name: "crash", Says: "%s crashes, or ends", Params: []Expr{n()},
			Update: []Update{
				add("dead", n()),
				becomes("held", And(is("held", xc()), Not(Equal(owner(xc()), n()))), xc()),
				becomes("acked", And(is("acked", xc()), Not(Equal(owner(xc()), n()))), xc()),
			},
		},
		{
			Name: "tick", Says: "the clock of the store reaches %s", Params: []Expr{t},
			Update: []Update{becomes("reached", Or(is("reached", Var("x", Time)), Equal(Var("x", Time), t),
				before("earlier", Var("x", Time), t)), Var("x", Time))},
		},
	}
}

// waits says that nobody has a claim on the row of an incarnation.
func waits(i Expr) Expr { return ForAll(Implies(Equal(on(d()), i), Not(is("claimed", d()))), d()) }

// free says that nobody has been in a position to publish an incarnation, and that nobody was told that it comes out.
func free(i Expr) Expr {
	return And(Not(is("bound", i)),
		ForAll(Implies(Equal(on(d()), i), And(Not(is("counted", d())), Not(is("claimed", d())))), d()))
}

// caughtUp says that what Kafka had when the lineage began, and still has, is taken in.
func caughtUp() Expr {
	m := Var("m", Record)
	return ForAll(Implies(And(is("marked", m), is("present", m)), is("taken", m)), m)
}

// publishing is the way of a claim, from when it is made until it is given back.
func publishing() []Transition { //nolint:funlen // a table
	takenOff := becomes("taken off", Or(is("taken off", xc()), And(Equal(xc(), c()), is("claimed", c()))), xc())
	alive := guard("its owner lives", Not(is("dead", owner(c()))))
	return []Transition{
		{
			Name: "claim", Says: "the store makes %s", Params: []Expr{c()},
			Guards: []Named{
				guard("it is a new one", Not(is("made", c()))),
				guard("its owner has started", is("started", owner(c()))),
				guard("its incarnation is stored", is("stored", on(c()))),
				guard("the message waits", waits(on(c()))),
				guard("the store has caught up", caughtUp()),
			},
			Update: []Update{
				add("made", c()), add("claimed", c()), add("counted", c()),
				becomes("early", Or(is("early", xc()), And(Equal(xc(), c()), Not(caughtUp()))), xc()),
			},
		},
		{
			Name: "learn", Says: "its owner hears of %s", Params: []Expr{c()},
			Guards: []Named{
				guard("it was made", is("made", c())), guard("it has not heard of it", Not(is("given", c()))), alive,
			},
			Update: []Update{add("given", c()), add("held", c())},
		},
		{
			Name: "forget", Says: "its owner forgets %s", Params: []Expr{c()}, Update: []Update{drop("held", c())},
		},
		{
			Name: "send", Says: "a publish under %s begins", Params: []Expr{c()},
			Guards: []Named{
				guard("its owner holds it", is("held", c())), guard("it is young enough", Not(expired(c()))),
			},
			Update: []Update{
				add("sent", c()), drop("held", c()),
				becomes("sent late", Or(is("sent late", xc()), And(Equal(xc(), c()), expired(c()))), xc()),
				becomes("resent", Or(is("resent", xc()), And(Equal(xc(), c()), is("sent", c()))), xc()),
			},
		},
		{
			Name: "append", Says: "Kafka appends what was published under %s", Params: []Expr{c()},
			Guards: []Named{
				guard("it was published", is("sent", c())),
				guard("Kafka has not said that it never will be", Not(is("failed", c()))),
			},
			Update: []Update{add("out", c()), addOn("appeared", c())},
		},
		{
			Name: "acknowledge", Says: "its owner hears that what was published under %s is appended",
			Params: []Expr{c()},
			Guards: []Named{guard("it is appended", is("out", c())), alive},
			Update: []Update{add("acked", c())},
		},
		{
			Name: "fail", Says: "Kafka says that nothing is appended under %s, and never will be", Params: []Expr{c()},
			Guards: []Named{
				guard("it is true", Not(is("out", c()))),
			},
			Update: []Update{add("failed", c())},
		},
		{
			Name: "give back unsent", Says: "its owner gives back %s, under which nothing was appended",
			Params: []Expr{c()},
			Guards: []Named{guard("nothing was, and nothing will be", And(is("given", c()), Or(
				is("held", c()), is("failed", c()))))},
			Update: []Update{drop("held", c()), add("unsent", c()), add("gave back", c())},
		},
		{
			Name: "give back", Says: "its owner gives back %s, under which something may have been appended",
			Params: []Expr{c()},
			Update: []Update{drop("held", c()), add("releasing", c()), add("gave back", c())},
		},
		{
			Name: "suspect", Says: "a detector finds %s expired", Params: []Expr{c()},
			Guards: []Named{guard("the clock of the store has reached its expiry", expired(c()))},
			Update: []Update{add("releasing", c())},
		},
		{
			Name: "reset", Says: "the store takes %s off its row", Params: []Expr{c()},
			Guards: []Named{guard("somebody has asked for exactly that", is("releasing", c()))},
			Update: []Update{drop("claimed", c()), takenOff},
		},
		{
			Name: "reset unsent", Says: "the store takes %s off its row, and it does not count as an attempt",
			Params: []Expr{c()},
			Guards: []Named{guard("its owner has given it back as unsent", is("unsent", c()))},
			Update: []Update{drop("claimed", c()), drop("counted", c()), takenOff},
		},
	}
}

// off takes all claims off the row of an incarnation that goes.
func off(i Expr) Update {
	return becomes("claimed", And(is("claimed", xc()), Not(Equal(on(xc()), i))), xc())
}

// exchanged is what becomes of a relation when one incarnation takes the place of another.
func exchanged(gone, comes Expr) Update {
	return becomes("stored", Or(And(is("stored", x()), Not(Equal(x(), gone))), Equal(x(), comes)), x())
}

// executed notes that a delete was executed, on a store that has known the incarnation.
func executed(i Expr) Update {
	return becomes("executed", Or(is("executed", x()), And(Equal(x(), i), is("brought", x()))), x())
}

// settling is the end of an incarnation.
func settling() []Transition {
	asked := guard("somebody who may has asked for it", is("asked", i()))
	next := []Named{
		guard("the occurrence is stored", is("stored", i())),
		guard("the next one is a new incarnation", Not(is("brought", j()))),
		guard("the next one has its name", Equal(name(i()), name(j()))),
	}
	rearmed := []Update{
		exchanged(i(), j()), add("brought", j()), add("drawn", j()), off(i()), executed(i()),
		becomes("follows", Or(is("follows", x(), y()),
			And(Equal(x(), j()), Or(Equal(y(), i()), is("follows", i(), y())))), x(), y()),
		becomes("former", Or(is("former", x()), And(Equal(x(), j()), is("former", i()))), x()),
		becomes("heir", Or(is("heir", x(), y()), And(Equal(x(), j()), is("heir", i(), y()))), x(), y()),
	}
	passes := []Named{
		guard("its owner passes it over", is("passing", i())),
		guard("nobody was told that it comes out", Not(is("bound", i()))),
	}
	return []Transition{
		{
			Name: "ask", Says: "the owner of %s asks to delete what it has published", Params: []Expr{c()},
			Guards: []Named{guard("it is acknowledged", is("acked", c()))},
			Update: []Update{addOn("asked", c())},
		},
		{
			Name: "give up", Says: "the owner of %s gives its message up", Params: []Expr{c()},
			Guards: []Named{guard("its time may be over, or its receiver refuse it", is("may end", on(c())))},
			Update: []Update{addOn("given up", c()), addOn("asked", c()), drop("held", c())},
		},
		{
			Name: "delete", Says: "the store deletes %s, if it is there", Params: []Expr{i()},
			Guards: []Named{asked},
			Update: []Update{
				drop("stored", i()), off(i()), executed(i()),
				becomes("settled", Or(is("settled", x()), And(Equal(x(), i()), is("stored", i()))), x()),
			},
		},
		{
			Name: "rearm", Says: "%s is settled, and the next occurrence, %s, takes its place",
			Params: []Expr{i(), j()},
			Guards: append([]Named{asked, guard("it is not stopped", Not(is("stopped", i())))}, next...),
			Update: append([]Update{add("settled", i())}, rearmed...),
		},
		{
			Name: "pass over", Says: "the owner of %s asks to pass over its occurrence", Params: []Expr{c()},
			Update: []Update{addOn("passing", c()), drop("held", c())},
		},
		{
			Name: "passed over", Says: "%s is passed over, and the next occurrence, %s, takes its place",
			Params: []Expr{i(), j()},
			Guards: append(slices.Clone(passes), next...),
			Update: append([]Update{add("passed", i()), add("settled", i())}, rearmed...),
		},
		{
			Name: "passed over at last", Says: "%s is passed over, and its series ends",
			Params: []Expr{i()}, Guards: slices.Clone(passes),
			Update: []Update{
				drop("stored", i()), off(i()), executed(i()), add("passed", i()), add("settled", i()),
			},
		},
	}
}

// restoring is what becomes of a store that is set back.
func restoring() []Transition {
	var saved, restored []Update
	for _, symbol := range symbols() {
		if !symbol.Kept {
			continue
		}
		var of, things []Expr
		for at, sort := range symbol.Args {
			things = append(things, Var("x"+string(rune('0'+at)), sort))
		}
		y := Var("y", Image)
		of = append([]Expr{y}, things...)
		saved = append(saved, becomes("image: "+symbol.Name,
			If(Equal(y, b()), is(symbol.Name, things...), is("image: "+symbol.Name, of...)), of...))
		restored = append(restored,
			becomes(symbol.Name, is("image: "+symbol.Name, append([]Expr{b()}, things...)...), things...))
	}
	now := func(relation string, to Expr) Update { return becomes(relation, to) }
	void := []Update{
		none("never", Incarnation), none("promised", Incarnation), none("last", Incarnation),
		none("replaced", Incarnation), none("committed", Record), becomes("old", is("made", xc()), xc()),
	}
	begins := append(slices.Clone(void), now("unseen", False()), now("suspect", False()), now("holding", And()),
		becomes("marked", is("present", xr()), xr()))
	backward := append(append(slices.Clone(void), none("executed", Incarnation)), restored...)
	return []Transition{
		{Name: "save", Says: "an image is made of the store: %s", Params: []Expr{b()}, Update: saved},
		{
			Name: "restore", Says: "the store is set back to %s, and shows it", Params: []Expr{b()},
			Update: append(slices.Clone(backward), now("suspect", And())),
		},
		{
			Name: "restore unseen", Says: "the store is set back to %s, and does not show it", Params: []Expr{b()},
			Update: append(slices.Clone(backward), now("unseen", And())),
		},
		{Name: "begin", Says: "a new lineage begins", Update: begins},
		{
			Name: "rewind", Says: "a new lineage begins, and the position behind %s is lowered to that behind %s",
			Params: []Expr{l(), q()},
			Guards: []Named{
				guard("the position is there", is("at", l())),
				guard("it is lowered", behind(q(), l())),
				guard("to a place in its log", is("written", q())),
			},
			Update: append(slices.Clone(begins),
				becomes("at", Or(And(is("at", xr()), Not(Equal(xr(), l()))), Equal(xr(), q())), xr()),
				becomes("taken", And(is("taken", xr()), Or(is("past", xr()), Not(lower(q(), xr())))), xr())),
		},
		{
			Name: "held for long", Says: "the hold time of a lineage is over",
			Guards: []Named{guard("all claims from before have expired",
				ForAll(Implies(is("old", xc()), expired(xc())), xc()))},
			Update: []Update{now("holding", False())},
		},
	}
}
