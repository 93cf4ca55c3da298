package proof

// outcomes returns what is true of what somebody was told, and of what has come out.
func outcomes() []Named {
	each := func(name string, formula Expr, says string) Named { return Named{name, says, ForAll(formula, i())} }
	onIt := And(Equal(on(c()), i()), is("made", c()), Not(is("old", c())))
	return []Named{
		each("settled is over", Implies(is("settled", i()), isOver(i())),
			"S2: what was settled has come out, or was passed over or given up."),
		each("deletes are justified", Implies(is("asked", i()), comesOut(i())),
			"S2, of deletes that are on their way: they may arrive at any later time, so what justifies them lasts."),
		{
			"acknowledged is out", "What a node takes for published has come out.",
			ForAll(Implies(is("acked", c()), is("appeared", on(c()))), c()),
		},
		{
			"out has appeared", "What was appended under a claim is the incarnation of the claim.",
			ForAll(Implies(is("out", c()), is("appeared", on(c()))), c()),
		},
		each("out was stored", Implies(is("appeared", i()), is("drawn", i())),
			"S9: what has come out was in the store."),
		each("deleted is gone", Implies(is("executed", i()), And(Not(is("stored", i())), is("brought", i()))),
			"S14: what a delete was executed on is not stored, and not inserted anew."),
		each("never is ended", Implies(is("never", i()), is("ended", i())), "What does not come out is not stored."),
		{
			"never is not claimed", "S19: every claim on what does not come out was given back as unsent.",
			ForAll(Implies(And(is("never", i()), onIt), is("unsent", c())), i(), c()),
		},
		each("never is after the hold time", Implies(is("never", i()), Not(Or(is("holding"), is("suspect")))),
			"While claims from before the lineage may be held, nobody is told that something does not come out."),
		each("promises are kept", Implies(is("promised", i()),
			Or(is("stored", i()), comesOut(i()), is("replaced", i()))),
			"S20: what somebody was told to come out is stored, or has come out, or was replaced or given up."),
		each("promises are bound", Implies(And(is("promised", i()), is("stored", i())), is("bound", i())),
			"S20: the row remembers what somebody was told."),
		each("promised is brought", Implies(is("promised", i()), is("brought", i())),
			"S20: what somebody was told to come out is not inserted anew."),
		each("the last is stopped", Implies(And(is("last", i()), is("stored", i())),
			And(is("stopped", i()), is("bound", i()))), "S22: the row remembers that it is the last of its series."),
		each("the last was stored", Implies(is("last", i()), is("brought", i())),
			"S22: what was named the last is not inserted anew."),
		{
			"nothing follows the last", "S22: what was named the last occurrence is followed by none.",
			ForAll(Implies(is("last", i()), Not(is("follows", j(), i()))), i(), j()),
		},
		{
			"former content is told of", "S21: if no outcome says that former content may appear, it does not.",
			ForAll(Implies(And(is("stored", j()), is("heir", j(), i()), Not(is("former", j())), onIt),
				is("unsent", c())),
				i(), j(), c()),
		},
	}
}

// deliveries returns what is true of logs and of what is read of them.
func deliveries() []Named {
	return []Named{
		{"logs are in order", "Of what Kafka has, the lower record has the lower offset.", ForAll(Implies(
			And(is("present", q()), is("present", r()), lower(q(), r())),
			before("lower offset", offset(q()), offset(r()))), q(), r())},
		{"present is written", "What Kafka has was written.", ForAll(Implies(is("present", r()), is("written", r())),
			r())},
		{
			"read is written", "What was read was written.",
			ForAll(Implies(is("read", r(), q()), is("written", r())), r(), q()),
		},
		{
			"reading skips nothing",
			"S18: what Kafka has, and is lower than what somebody has read, lies at or below where " +
				"the reading began.", ForAll(Implies(And(is("read", r(), q()), is("present", xr()), lower(xr(), r())),
				Not(above(xr(), q()))), r(), q(), xr()),
		},
		{"committed lies behind", "S10: what is committed lies behind the position.", committedBehind()},
		{
			"committed is placed", "S10: offsets are committed only where there is a position.",
			ForAll(Implies(is("committed", r()), is("placed", partition(r()))), r()),
		},
		{"taken in once", "S17: no record takes effect twice in a lineage.", ForAll(Not(is("twice", r())), r())},
	}
}

// ofRows is something that is true of the store, whichever of its images it is.
type ofRows struct {
	name, says string
	holds      func(v kept) Expr
}

// rows returns what is true of the store and of each of its images.
func rows() []ofRows { //nolint:funlen // a table
	return []ofRows{
		{"one row", "S11: there is at most one row of a name.", oneRow},
		{"one claim", "S3: there is at most one claim on a row.", func(v kept) Expr {
			return v.all(Implies(And(v.is("claimed", c()), v.is("claimed", d()), Equal(on(c()), on(d()))),
				Equal(c(), d())),
				c(), d())
		}},
		{"claims are on rows", "A claim goes with its row.", func(v kept) Expr {
			return v.all(Implies(v.is("claimed", c()), v.is("stored", on(c()))), c())
		}},
		{"claims are made", "What stands on a row was made.", func(v kept) Expr {
			return v.all(Implies(v.is("claimed", c()), is("made", c())), c())
		}},
		{"stored is brought", "What is stored was inserted.", func(v kept) Expr {
			return v.all(Implies(v.is("stored", i()), v.is("brought", i())), i())
		}},
		{"brought is drawn", "What was inserted was drawn.", func(v kept) Expr {
			return v.all(Implies(v.is("brought", i()), is("drawn", i())), i())
		}},
		{
			"nothing is lost",
			"S1: what was inserted is stored, or has come out, or was ended, passed over or given up.",
			whatWasInserted,
		},
		{"ended is gone", "What an instruction has ended is not stored, and not inserted anew.", func(v kept) Expr {
			return v.all(Implies(v.is("ended", i()), And(v.is("brought", i()), Not(v.is("stored", i())))), i())
		}},
		{
			"heirs inherit", "What has an heir has been ended, and the heir is none that is inserted anew.",
			func(v kept) Expr {
				return v.all(Implies(v.is("heir", j(), i()), And(v.is("ended", i()), v.is("brought", j()))), i(), j())
			},
		},
		{
			"what is followed is brought", "An occurrence that another one follows is not inserted anew.",
			func(v kept) Expr {
				return v.all(Implies(v.is("follows", j(), i()), v.is("brought", i())), i(), j())
			},
		},
		{
			"the stored one is the last so far", "S22: the occurrence that is stored is the last one so far.",
			func(v kept) Expr {
				return v.all(Implies(v.is("stored", i()), Not(v.is("follows", j(), i()))), i(), j())
			},
		},
		{
			"one after the other comes out", "S22: what another occurrence follows has come out, or is excused.",
			func(v kept) Expr {
				return v.all(Implies(v.is("follows", j(), i()), isOver(i())), i(), j())
			},
		},
		{
			"a series is a line", "S22: of two occurrences one comes after the other, unless one was moved.",
			func(v kept) Expr { return v.all(line(v), i(), j(), k()) },
		},
		{"one position", "A partition has one position.", func(v kept) Expr {
			return v.all(Implies(And(v.is("at", q()), v.is("at", l()), Equal(partition(q()), partition(l()))),
				Equal(q(), l())),
				q(), l())
		}},
		{"positions are places", "A position is a place in the log as it was.", func(v kept) Expr {
			return v.all(Implies(v.is("at", l()), is("written", l())), l())
		}},
		{"positions are assigned", "Only an assignment makes a position.", func(v kept) Expr {
			return v.all(Implies(v.is("at", l()), v.is("placed", partition(l()))), l())
		}},
		{"taken in is placed", "Nothing is taken in of a partition that has no position.", func(v kept) Expr {
			return v.all(Implies(And(v.is("taken", r()), Not(is("past", r()))), v.is("placed", partition(r()))), r())
		}},
		{"taken in lies behind", "S17: what is taken in lies behind the position.", func(v kept) Expr {
			return v.all(Implies(And(v.is("taken", r()), Not(is("past", r())), v.is("at", l()),
				Equal(partition(r()), partition(l()))), behind(r(), l())), r(), l())
		}},
		{"no gap", "S18: what lies behind the position, and Kafka has, is taken in.", noGap},
		{"taken in is stored", "S18: what is taken in is stored or covered.", takenIsStored},
		{
			"what covers was stored", "S1: a message of that name was stored when a record was found to be covered.",
			coveredByStored,
		},
		{"outcomes are stored", "S21: the outcome is stored with its effect.", outcomesAreStored},
	}
}
