package proof

import "slices"

// instruction is what a take does for one record, apart from that it moves the position and stores the outcome.
type instruction struct {
	name, says string
	params     []Expr
	guards     []Named

	gone  *Expr // the incarnation that is not stored any more; nil for none
	comes *Expr // the one that is stored from now on; nil for none

	update []Update
}

// taking is what a take may do, one transition for each outcome. A take of several records is several of these with
// nothing in between.
func taking() []Transition { //nolint:funlen // a table
	stored := guard("there is a message", And(is("stored", j()), Equal(name(j()), about(r()))))
	isFree := guard("nobody was in a position to publish it, or was told that it comes out", free(j()))
	attempted := Exists(And(Equal(on(d()), j()), Or(is("counted", d()), is("claimed", d()))), d())
	sound := []Named{
		guard("no claim from before the lineage is held", Not(is("holding"))),
		guard("the store does not show that it was set back", Not(is("suspect"))),
	}
	other := guard("the record brings no message", Not(is("submits", r())))
	fresh := []Named{
		guard("its incarnation is new to the store", Not(is("brought", i()))),
		guard("it has that name", Equal(name(i()), about(r()))),
	}
	ofRecord := guard("its incarnation was drawn for the record", is("brings", i(), r()))
	gone, comes := j(), i()

	heir := becomes("heir", Or(is("heir", x(), y()),
		And(Equal(x(), i()), Or(Equal(y(), j()), is("heir", j(), y())))), x(), y())
	sameFormer := becomes("former", Or(is("former", x()), And(Equal(x(), i()), is("former", j()))), x())
	sameStopped := becomes("stopped", Or(is("stopped", x()), And(Equal(x(), i()), is("stopped", j()))), x())
	sameSeries := becomes("follows", Or(is("follows", x(), y()), And(Equal(x(), i()), is("follows", j(), y()))), x(),
		y())
	moved := []Update{heir, sameFormer, sameStopped, sameSeries}
	mayAppear := Or(is("former", j()), attempted)

	var all []Transition
	for _, in := range []instruction{
		{
			name: "schedule", says: "%s is stored for %s", params: []Expr{i(), r()}, comes: &comes,
			guards: slices.Concat([]Named{
				ofRecord, guard("there is no message of that name", ForAll(
					Implies(is("stored", x()), Not(Equal(name(x()), about(r())))), x())),
			}, fresh),
		},
		{
			name: "cover", says: "%[2]s is covered by %[1]s", params: []Expr{j(), r()},
			guards: []Named{stored}, update: []Update{add("covered", r())},
		},
		{
			name: "replace", says: "%s takes the place of %s, for %s", params: []Expr{i(), j(), r()},
			gone: &gone, comes: &comes, guards: slices.Concat([]Named{stored, ofRecord}, fresh, sound),
			update: []Update{
				heir, add("replaced", j()),
				becomes("former", Or(is("former", x()), And(Equal(x(), i()), mayAppear)), x()),
				becomes("never", Or(is("never", x()), And(Equal(x(), j()), Not(mayAppear))), x()),
			},
		},
		{
			name: "reschedule", says: "%s takes the place of %s, which waits, at another time, for %s",
			params: []Expr{i(), j(), r()}, gone: &gone, comes: &comes,
			guards: slices.Concat([]Named{stored, isFree, other}, fresh, sound),
			update: append(slices.Clone(moved), add("never", j())),
		},
		{
			name: "fire", says: "%s takes the place of %s, which waits, and is due now, for %s",
			params: []Expr{i(), j(), r()}, gone: &gone, comes: &comes,
			guards: slices.Concat([]Named{stored, isFree, other}, fresh),
			update: append(slices.Clone(moved), add("bound", i()), add("promised", i())),
		},
		{
			name: "cancel", says: "%s, which waits, is removed for %s", params: []Expr{j(), r()}, gone: &gone,
			guards: slices.Concat([]Named{stored, isFree, other}, sound),
			update: []Update{add("never", j()), add("last", j())},
		},
		{
			name: "too late", says: "%s is bound, for %s", params: []Expr{j(), r()},
			guards: []Named{stored, other}, update: []Update{add("bound", j()), add("promised", j())},
		},
		{
			name: "stop", says: "%s is the last of its series, and bound, for %s", params: []Expr{j(), r()},
			guards: []Named{stored, other},
			update: []Update{
				add("bound", j()), add("stopped", j()), add("promised", j()), add("last", j()),
			},
		},
		{
			name: "nothing", says: "nothing is done for %s", params: []Expr{r()}, guards: []Named{other},
		},
	} {
		all = append(all, in.transition())
	}
	return all
}

// transition returns the transition that takes the record in and does what is said.
func (in instruction) transition() Transition {
	a := Var("a", Incarnation)
	kafka := Not(is("past", r()))
	told := is("wants", r())
	guards := slices.Concat(in.guards, []Named{
		guard("a request past Kafka is a new one", Implies(is("past", r()), Not(is("taken", r())))),
		guard("somebody has read the record", Implies(kafka, is("read", r(), q()))),
		guard("its partition has a position", Implies(kafka, And(is("at", l()),
			Equal(partition(l()), partition(r()))))),
		guard("what is read begins at the position or below it", Implies(kafka, Not(above(q(), l())))),
		guard("the record lies behind the position by its epoch and offset", Implies(kafka, lower(l(), r()))),
		guard("the outcome has an incarnation of its own", Implies(told,
			And(is("tells", a, r()), Not(is("brought", a))))),
		guard("and a name of its own", Implies(told, And(Not(Equal(name(a), about(r()))),
			ForAll(Implies(is("stored", y()), Not(Equal(name(y()), name(a)))), y())))),
	})
	isTold := And(told, Equal(x(), a))
	stays, comes := is("stored", x()), isTold
	var update []Update
	if in.gone != nil {
		stays = And(stays, Not(Equal(x(), *in.gone)))
		update = append(update, add("ended", *in.gone), off(*in.gone))
	}
	if in.comes != nil {
		comes = Or(Equal(x(), *in.comes), isTold)
	}
	update = append(update,
		becomes("stored", Or(stays, comes), x()),
		becomes("brought", Or(is("brought", x()), comes), x()),
		becomes("drawn", Or(is("drawn", x()), comes), x()),
		becomes("at", If(is("past", r()), is("at", xr()),
			Or(And(is("at", xr()), Not(Equal(xr(), l()))), Equal(xr(), r()))), xr()),
		add("taken", r()),
		becomes("twice", Or(is("twice", xr()), And(Equal(xr(), r()), is("taken", r()))), xr()),
	)
	return Transition{
		Name: in.name, Says: in.says, Params: append(slices.Clone(in.params), q(), l(), a),
		Guards: guards, Update: append(update, in.update...),
	}
}
