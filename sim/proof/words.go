package proof

// The sorts. A name stands for an id together with its lane: ids are unique on each lane, and lanes have nothing else
// to do with each other.
const (
	Node        Sort = "node"        // a process, from its start to its end: a node that starts again is another
	Name        Sort = "name"        // what names a message: its id and its lane
	Incarnation Sort = "incarnation" // of a message: every insert draws one
	Claim       Sort = "claim"       // of a node on an incarnation, at an instant
	Record      Sort = "record"      // of an input topic, or a request past Kafka
	Partition   Sort = "partition"   // of an input topic of one topic id
	Offset      Sort = "offset"      // in a partition
	Epoch       Sort = "epoch"       // of a leader of a partition
	Time        Sort = "time"        // an instant by the clock of the store
	Image       Sort = "image"       // of the store: a backup, or what a standby has
)

// Variables that formulas and transitions have in common. Those of transitions are their parameters.
func i() Expr  { return Var("i", Incarnation) }
func j() Expr  { return Var("j", Incarnation) }
func k() Expr  { return Var("k", Incarnation) }
func c() Expr  { return Var("c", Claim) }
func d() Expr  { return Var("d", Claim) }
func n() Expr  { return Var("n", Node) }
func r() Expr  { return Var("r", Record) }
func q() Expr  { return Var("q", Record) }
func l() Expr  { return Var("l", Record) }
func b() Expr  { return Var("b", Image) }
func x() Expr  { return Var("x", Incarnation) }
func y() Expr  { return Var("y", Incarnation) }
func xc() Expr { return Var("x", Claim) }
func xr() Expr { return Var("x", Record) }

// What things are.
func name(i Expr) Expr      { return Apply("name", i) }
func on(c Expr) Expr        { return Apply("on", c) }
func owner(c Expr) Expr     { return Apply("owner", c) }
func expiry(c Expr) Expr    { return Apply("expiry", c) }
func partition(r Expr) Expr { return Apply("partition", r) }
func offset(r Expr) Expr    { return Apply("offset", r) }
func epoch(r Expr) Expr     { return Apply("epoch", r) }
func about(r Expr) Expr     { return Apply("about", r) }

// before says that an offset, an epoch or an instant is lower than another.
func before(order string, a, b Expr) Expr { return Apply(order, a, b) }

// lower says that a record of a partition comes before another one by the pair of epoch and offset. That is the order
// in which positions move.
func lower(a, b Expr) Expr {
	return And(Equal(partition(a), partition(b)), Or(
		before("lower epoch", epoch(a), epoch(b)),
		And(Equal(epoch(a), epoch(b)), before("lower offset", offset(a), offset(b)))))
}

// behind says that a record lies behind the place after another one: it is that one, or lower.
func behind(a, place Expr) Expr {
	return And(Equal(partition(a), partition(place)), Or(
		before("lower epoch", epoch(a), epoch(place)),
		And(Equal(epoch(a), epoch(place)), Not(before("lower offset", offset(place), offset(a))))))
}

// above says that a place lies above another one of its partition in its epoch or in its offset: what is read from
// there on would leave a gap.
func above(a, place Expr) Expr {
	return Or(before("lower epoch", epoch(place), epoch(a)), before("lower offset", offset(place), offset(a)))
}

// expired says that the clock of the store has reached the expiry of a claim.
func expired(c Expr) Expr { return Apply("reached", expiry(c)) }

// is returns a relation, of a state, by its name.
func is(relation string, args ...Expr) Expr { return Apply(relation, args...) }

// kept is the store as it is, or as an image of it has it.
type kept struct {
	image  Expr
	imaged bool
}

// store is the store as it is.
func store() kept { return kept{} }

// image is what an image of the store has.
func image() kept { return kept{b(), true} }

// of is the prefix of the symbols of images.
const of = "image: "

// is returns a relation of the store.
func (v kept) is(relation string, args ...Expr) Expr {
	if !v.imaged {
		return Apply(relation, args...)
	}
	return Apply(of+relation, append([]Expr{v.image}, args...)...)
}

// all binds variables, and the image if it is one.
func (v kept) all(body Expr, bound ...Expr) Expr {
	if v.imaged {
		bound = append([]Expr{v.image}, bound...)
	}
	return ForAll(body, bound...)
}

// symbols returns all symbols.
func symbols() []Symbol { //nolint:funlen // a table
	relation := func(name, says string, args ...Sort) Symbol { return Symbol{Name: name, Args: args, Says: says} }
	rigid := func(name, says string, result Sort, args ...Sort) Symbol {
		return Symbol{Name: name, Args: args, Result: result, Says: says, Rigid: true}
	}
	store := func(name, says string, args ...Sort) Symbol {
		return Symbol{Name: name, Args: args, Says: says, Kept: true}
	}
	all := []Symbol{
		rigid("name", "the name of %s", Name, Incarnation),
		rigid("may end", "%s has a time at which it is given up, or a receiver that may refuse it", Truth, Incarnation),
		rigid("on", "the incarnation of %s", Incarnation, Claim),
		rigid("owner", "the owner of %s", Node, Claim),
		rigid("expiry", "when %s expires", Time, Claim),
		rigid("partition", "the partition of %s", Partition, Record),
		rigid("offset", "the offset of %s", Offset, Record),
		rigid("epoch", "the epoch of %s", Epoch, Record),
		rigid("about", "the name of the message that %s is about", Name, Record),
		rigid("origin", "%s is the place before the first record", Truth, Record),
		rigid("past", "%s is a request past Kafka", Truth, Record),
		rigid("submits", "%s brings a message", Truth, Record),
		rigid("wants", "whoever has sent %s is to be told of the outcome", Truth, Record),
		rigid("brings", "%s is the incarnation of the message that %s brings", Truth, Incarnation, Record),
		rigid("tells", "%s is the incarnation of the message that tells of the outcome of %s", Truth, Incarnation,
			Record),
		rigid("lower offset", "%s < %s", Truth, Offset, Offset),
		rigid("lower epoch", "%s < %s", Truth, Epoch, Epoch),
		rigid("earlier", "%s < %s", Truth, Time, Time),

		store("stored", "%s is stored", Incarnation),
		store("claimed", "%s stands on its row", Claim),
		store("counted", "%s counts as an attempt", Claim),
		store("bound", "%s is bound", Incarnation),
		store("former", "%s has replaced content that may come out", Incarnation),
		store("stopped", "%s is stopped", Incarnation),
		store("brought", "%s has been inserted", Incarnation),
		store("ended", "an instruction has removed, moved or replaced %s", Incarnation),
		store("heir", "%s has taken the place of %s by an instruction", Incarnation, Incarnation),
		store("follows", "%s is a later occurrence of the series than %s", Incarnation, Incarnation),
		store("taken", "%s is taken in", Record),
		store("covered", "%s was found to be covered", Record),
		store("at", "the position is behind %s", Record),
		store("placed", "%s has a position", Partition),

		relation("present", "Kafka has %s", Record),
		relation("written", "%s was written once", Record),
		relation("read", "somebody has read %s, from behind %s on", Record, Record),
		relation("committed", "the offset behind %s was committed", Record),
		relation("twice", "%s has taken effect twice", Record),
		relation("marked", "%s was in Kafka when the lineage began", Record),

		relation("started", "%s has started", Node),
		relation("dead", "%s is dead", Node),
		relation("drawn", "%s has been in the store", Incarnation),
		relation("made", "%s was made", Claim),
		relation("given", "its owner has been given %s", Claim),
		relation("held", "its owner holds %s, on its schedule", Claim),
		relation("sent", "a publish under %s has begun", Claim),
		relation("sent late", "a publish under %s has begun after it expired", Claim),
		relation("resent", "a second publish under %s has begun", Claim),
		relation("failed", "nothing was appended under %s, for certain", Claim),
		relation("out", "a record was appended under %s", Claim),
		relation("acked", "the owner of %s knows that its publish is acknowledged", Claim),
		relation("gave back", "the owner of %s has given it back", Claim),
		relation("releasing", "a reset of %s is on its way", Claim),
		relation("unsent", "a release of %s as unsent is on its way", Claim),
		relation("passing", "a node that had claimed %s asks to pass it over", Incarnation),
		relation("taken off", "a reset has taken %s off its row", Claim),
		relation("early", "%s was made before its lineage had caught up", Claim),
		relation("old", "%s was made before the store was set back, or the lineage began", Claim),

		relation("appeared", "%s has come out", Incarnation),
		relation("asked", "a delete of %s is on its way", Incarnation),
		relation("settled", "%s was settled: deleted, or followed by the next occurrence", Incarnation),
		relation("executed", "a delete of %s was executed", Incarnation),
		relation("passed", "%s was passed over", Incarnation),
		relation("given up", "%s was given up: its time is over, or it is refused for good", Incarnation),
		relation("never", "somebody was told that %s does not come out", Incarnation),
		relation("promised", "somebody was told that %s comes out", Incarnation),
		relation("last", "somebody was told that no occurrence comes after %s", Incarnation),
		relation("replaced", "%s was replaced", Incarnation),

		relation("reached", "the clock of the store has reached %s", Time),
		relation("unseen", "the store was set back unseen, and no lineage has begun since"),
		relation("suspect", "the store shows that it may have been set back"),
		relation("holding", "claims from before the lineage may be held"),
	}
	for _, symbol := range all {
		if symbol.Kept {
			all = append(all, Symbol{
				Name: of + symbol.Name, Args: append([]Sort{Image}, symbol.Args...), Says: "in %s " + symbol.Says,
			})
		}
	}
	return all
}
