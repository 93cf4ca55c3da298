package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Op names what a fault is keyed to: a method of a port, or a submission of the application.
type Op string

// The operations that faults are keyed to.
const (
	OpBind      Op = "bind"
	OpPositions Op = "positions"
	OpTake      Op = "take"
	OpCatchUp   Op = "catch-up"
	OpClaim     Op = "claim"
	OpDelete    Op = "delete"
	OpExpired   Op = "expired"
	OpReset     Op = "reset"
	OpParts     Op = "parts"
	OpPoll      Op = "poll"
	OpStart     Op = "start"
	OpCommit    Op = "commit"
	OpExtents   Op = "extents"
	OpLeave     Op = "leave"
	OpPublish   Op = "publish"
	OpSubmit    Op = "submit"
	OpCall      Op = "call"
	OpApply     Op = "apply"
	OpDue       Op = "due"
)

// ops returns all operations; their places are their numbers.
func ops() []Op {
	return []Op{
		OpBind, OpPositions, OpTake, OpCatchUp, OpClaim, OpDelete, OpExpired, OpReset, OpParts,
		OpPoll, OpStart, OpCommit, OpExtents, OpLeave, OpPublish, OpSubmit, OpCall, OpApply, OpDue,
	}
}

// numberedOp is an Op as an index.
type numberedOp uint8

const (
	opBind numberedOp = iota
	opPositions
	opTake
	opCatchUp
	opClaim
	opDelete
	opExpired
	opReset
	opParts
	opPoll
	opStart
	opCommit
	opExtents
	opLeave
	opPublish
	opSubmit
	opCall
	opApply
	opDue
	opCount
)

// idle reports whether nodes make such calls all the time, also when there is nothing to do.
func (n numberedOp) idle() bool {
	return n == opClaim || n == opExpired || n == opParts || n == opPoll || n == opPositions || n == opDue
}

// FaultKind names a kind of fault.
type FaultKind string

// The kinds of faults. faultKinds tells what each does.
const (
	CrashBefore     FaultKind = "crash-before"
	CrashSent       FaultKind = "crash-sent"
	CrashApplied    FaultKind = "crash-applied"
	CrashReplied    FaultKind = "crash-replied"
	Pause           FaultKind = "pause"
	PauseSent       FaultKind = "pause-sent"
	RequestLost     FaultKind = "request-lost"
	ReplyLost       FaultKind = "reply-lost"
	Refused         FaultKind = "refused"
	Disconnected    FaultKind = "disconnected"
	Late            FaultKind = "late"
	Slow            FaultKind = "slow"
	Partial         FaultKind = "partial"
	Locked          FaultKind = "locked"
	RowsLocked      FaultKind = "rows-locked"
	RolledBack      FaultKind = "rolled-back"
	Duplicate       FaultKind = "duplicate"
	StoreDown       FaultKind = "store-down"
	StoreSilent     FaultKind = "store-silent"
	Failover        FaultKind = "failover"
	StoreStep       FaultKind = "store-step"
	BrokerDown      FaultKind = "broker-down"
	LeaderChange    FaultKind = "leader-change"
	TopicMissing    FaultKind = "topic-missing"
	CutStore        FaultKind = "cut-store"
	CutStoreReplies FaultKind = "cut-store-replies"
	CutBroker       FaultKind = "cut-broker"
	CutBrokerAcks   FaultKind = "cut-broker-replies"
	WallStep        FaultKind = "wall-step"
	RateChange      FaultKind = "rate-change"
	Rebalanced      FaultKind = "rebalanced"
	Expelled        FaultKind = "expelled"
	Rewound         FaultKind = "rewound"
	Stopped         FaultKind = "stopped"
	Suspended       FaultKind = "suspended"
	StoreUnfit      FaultKind = "store-unfit"
	StandbyStalls   FaultKind = "standby-stalls"
	Cluttered       FaultKind = "cluttered"
	SetBack         FaultKind = "set-back"
	SetBackUnseen   FaultKind = "set-back-unseen"
	Truncated       FaultKind = "truncated"
	Retention       FaultKind = "retention"
	Recreated       FaultKind = "recreated"
	PartitionAdded  FaultKind = "partition-added"
	OffsetsLost     FaultKind = "offsets-lost"
	LaneHangs       FaultKind = "lane-hangs"
	PartitionHangs  FaultKind = "partition-hangs"
	CutPartition    FaultKind = "cut-partition"
	LanePaused      FaultKind = "lane-paused"
	IntakePaused    FaultKind = "intake-paused"
	ZoneMissing     FaultKind = "zone-missing"
	WindowChanged   FaultKind = "window-changed"
	TakenAgain      FaultKind = "taken-again"
	Upgraded        FaultKind = "upgraded"
)

// Fault is one entry of a plan: something that goes wrong at the Nth call of an operation by a node, counted from
// 1 over all lives of that node. Node 0 is the application.
//
// Faults are keyed to calls rather than to instants because a call is where a distributed algorithm breaks: the reply
// to one particular delete is lost. A random instant almost never meets it.
type Fault struct {
	Node int
	Op   Op
	Nth  int

	// Of counts only the calls that are about that submission; 0 counts all. Such a fault stays where it is when
	// other submissions are taken away.
	Of int

	Kind FaultKind

	// For is how long it lasts, how late it is, by how much a clock jumps, or when a process is started again.
	For time.Duration

	// Count is how many items take effect, commits are lost or records are read again.
	Count int
}

// String returns the fault as a line of a plan.
func (f Fault) String() string {
	var s strings.Builder
	if f.Node == 0 {
		s.WriteString("app")
	} else {
		fmt.Fprintf(&s, "node %d", f.Node)
	}
	fmt.Fprintf(&s, " %s %d", f.Op, f.Nth)
	if f.Of != 0 {
		fmt.Fprintf(&s, " of %d", f.Of)
	}
	fmt.Fprintf(&s, ": %s", f.Kind)
	if f.For != 0 {
		fmt.Fprintf(&s, " %v", f.For)
	}
	if f.Count != 0 {
		fmt.Fprintf(&s, " %d", f.Count)
	}
	return s.String()
}

// ParseFault reads a line of a plan.
func ParseFault(line string) (Fault, error) {
	var f Fault
	where, what, found := strings.Cut(line, ":")
	words := strings.Fields(where)
	if found && len(words) > 0 && words[0] == "app" {
		words = append([]string{"node", "0"}, words[1:]...)
	}
	var err error
	if len(words) == 6 && words[4] == "of" {
		if f.Of, err = strconv.Atoi(words[5]); err != nil || f.Of < 1 {
			return Fault{}, fmt.Errorf("%q is no submission", words[5])
		}
		words = words[:4]
	}
	if !found || len(words) != 4 || words[0] != "node" {
		return Fault{}, fmt.Errorf("%q is not of the form node 3 delete 2: reply-lost", line)
	}
	if f.Node, err = strconv.Atoi(words[1]); err != nil || f.Node < 0 {
		return Fault{}, fmt.Errorf("%q is no node", words[1])
	}
	if f.Nth, err = strconv.Atoi(words[3]); err != nil || f.Nth < 1 {
		return Fault{}, fmt.Errorf("%q does not number a call: the first is 1", words[3])
	}
	f.Op = Op(words[2])
	// The application submits, and its operators give instructions to the store, and ask things of queues.
	if number, known := numberOf(f.Op); !known || f.Node != 0 && number == opSubmit ||
		f.Node == 0 && number != opSubmit && number != opTake && number != opApply {
		return Fault{}, fmt.Errorf("there is no operation %q there", words[2])
	}
	words = strings.Fields(what)
	if len(words) == 0 {
		return Fault{}, fmt.Errorf("%q names no fault", line)
	}
	f.Kind = FaultKind(words[0])
	kind, known := describe(f.Kind)
	if number, _ := numberOf(f.Op); !known || !kind.at(number) {
		return Fault{}, fmt.Errorf("there is no fault %q of %s", words[0], f.Op)
	}
	for _, word := range words[1:] {
		if n, err := strconv.Atoi(word); err == nil {
			f.Count = n
		} else if f.For, err = time.ParseDuration(word); err != nil {
			return Fault{}, fmt.Errorf("%q is neither a time nor a number", word)
		}
	}
	return f, nil
}

func numberOf(op Op) (numberedOp, bool) {
	for i, o := range ops() {
		if o == op {
			return numberedOp(i), true
		}
	}
	return 0, false
}

// faultDescription tells what a kind of fault does, where it can happen, and how it is drawn.
type faultDescription struct {
	kind FaultKind
	text string

	// where it can happen: a bit for each operation
	where uint32

	// weight is how often it is drawn, compared with others. 0: only when a plan or Options.Mix names it.
	weight int

	// least and most bound For; countMost bounds Count, from 0. Clock steps go both ways.
	least, most time.Duration
	countMost   int
	bothWays    bool
}

func (d *faultDescription) at(op numberedOp) bool { return d.where>>op&1 == 1 }

func describe(kind FaultKind) (faultDescription, bool) {
	for _, d := range faultKinds() {
		if d.kind == kind {
			return d, true
		}
	}
	return faultDescription{}, false
}

// mostRate is by how much the rate of a clock may be wrong after a fault, in parts per million.
const mostRate = 500

// faultKinds returns all kinds of faults.
func faultKinds() []faultDescription { //nolint:funlen // a table
	const (
		ms, s    = time.Millisecond, time.Second
		takes    = 1 << opTake
		claims   = 1 << opClaim
		deletes  = 1 << opDelete
		resets   = 1 << opReset
		polls    = 1<<opPoll | 1<<opStart
		commits  = 1 << opCommit
		publish  = 1 << opPublish
		submit   = 1 << opSubmit
		writes   = takes | claims | deletes | resets | 1<<opApply
		parts    = takes | claims | deletes | resets | commits | publish
		store    = writes | 1<<opBind | 1<<opPositions | 1<<opCatchUp | 1<<opExpired | 1<<opParts | 1<<opDue
		requests = store | commits | publish | 1<<opLeave | 1<<opExtents | 1<<opCall
		calls    = requests | polls
	)
	return []faultDescription{
		{CrashBefore, "the process dies before it sends the request", calls, 3, ms, 20 * s, 0, false},
		{CrashSent, "the process dies when the request is on its way", requests, 3, ms, 20 * s, 0, false},
		{CrashApplied, "the process dies when the request has taken effect", requests, 3, ms, 20 * s, 0, false},
		{CrashReplied, "the process dies right after the reply", calls, 3, ms, 20 * s, 0, false},
		{Pause, "the process is stopped before it sends the request, and goes on", calls, 6, 10 * ms, 30 * s, 0, false},
		{PauseSent, "the process is stopped while it waits, and goes on", requests, 6, 10 * ms, 30 * s, 0, false},
		{RequestLost, "the request is lost: a timeout, and no effect", requests, 6, 0, 0, 0, false},
		{ReplyLost, "the reply is lost: a timeout, and an effect", requests, 12, 0, 0, 0, false},
		{Refused, "an error at once, and no effect", calls, 6, 0, 0, 0, false},
		{Disconnected, "an error at once, and an effect", requests, 12, 0, 0, 0, false},
		{Late, "the request takes effect late, often after the timeout", requests, 6, 50 * ms, 20 * s, 0, false},
		{Slow, "the reply takes long", requests, 6, 10 * ms, 5 * s, 0, false},
		{Partial, "an error, after some items have taken effect", parts, 9, 0, 0, 8, false},
		{Locked, "the transaction holds its row locks for long", writes, 8, 10 * ms, 2 * s, 0, false},
		{
			RowsLocked, "a session of somebody else locks what is stored for a lane, and ends it late or never",
			calls | submit, 3, 10 * ms, 10 * time.Minute, 8, false,
		},
		{RolledBack, "the transaction holds its row locks for long and is undone", writes, 8, 10 * ms, 2 * s, 0, false},
		{Duplicate, "the records are appended twice", publish | submit | 1<<opCall, 4, 0, 0, 0, false},
		{StoreDown, "the store refuses everybody", calls, 1, 10 * ms, 20 * s, 0, false},
		{StoreSilent, "the store answers nobody", calls, 1, 10 * ms, 20 * s, 0, false},
		{Failover, "the store is away, and comes back with another clock", calls, 1, 10 * ms, 5 * s, 0, false},
		{StoreStep, "the store's clock jumps", calls, 1, ms, 20 * s, 0, true},
		{BrokerDown, "the brokers answer nobody", calls, 1, 10 * ms, 20 * s, 0, false},
		{LeaderChange, "a partition has no leader for a while", calls, 2, 10 * ms, 10 * s, 64, false},
		{TopicMissing, "an output topic is missing for a while", publish, 1, 10 * ms, 10 * s, 8, false},
		{CutStore, "the node and the store do not reach each other", calls, 2, 10 * ms, 30 * s, 0, false},
		{CutStoreReplies, "what the store sends does not reach the node", calls, 2, 10 * ms, 30 * s, 0, false},
		{CutBroker, "the node and the brokers do not reach each other", calls, 2, 10 * ms, 30 * s, 0, false},
		{CutBrokerAcks, "what the brokers send does not reach the node", calls, 2, 10 * ms, 30 * s, 0, false},
		{WallStep, "the node's wall clock jumps", calls, 2, ms, 20 * s, 0, true},
		{RateChange, "the node's clocks go at another rate, in ppm", calls, 1, 0, 0, mostRate, false},
		{Rebalanced, "the group shares its partitions out anew", calls, 3, 0, 0, 0, false},
		{Expelled, "the group gives the node up for dead, though it lives", calls, 3, 10 * ms, 5 * s, 0, false},
		{Rewound, "the offsets of the group go back", calls, 1, 0, 0, 50, false},
		{Stopped, "the node is told to stop, and is started again", calls, 2, ms, 10 * s, 0, false},
		{Suspended, "the machine is suspended, and its timers stand still", calls, 2, 10 * ms, 30 * s, 0, false},
		{StoreUnfit, "the server refuses everybody, as it would one message", calls, 1, 10 * ms, 10 * s, 0, false},
		{StandbyStalls, "the standby that commits wait for confirms nothing", calls, 1, 10 * ms, 20 * s, 0, false},
		{Cluttered, "claims wade through dead entries of the index", calls, 1, 10 * ms, 20 * s, 3000, false},
		{SetBack, "the store is as it was a while ago, and shows it", calls, 1, 10 * ms, 60 * s, 0, false},
		{SetBackUnseen, "the store is as it was a while ago, and hides it", calls, 1, 10 * ms, 60 * s, 0, false},
		{Truncated, "a new leader of an input partition lacks its last records", calls | submit, 1, 0, 0, 64, false},
		{Retention, "the first records of an input partition are deleted", calls | submit, 1, 0, 0, 64, false},
		{Recreated, "an input topic is deleted and created again", calls, 1, 0, 0, 8, false},
		{PartitionAdded, "an input topic gets one more partition", calls, 1, 0, 0, 8, false},
		{OffsetsLost, "the offsets of the group are lost", calls, 1, 0, 0, 0, false},
		{LaneHangs, "the leaders of an output topic answer nobody", calls, 1, 10 * ms, 20 * s, 8, false},
		{PartitionHangs, "the leader of an output partition answers nobody", calls, 1, 10 * ms, 20 * s, 64, false},
		{CutPartition, "the node does not reach the leader of a partition", calls, 1, 10 * ms, 60 * s, 64, false},
		{LanePaused, "somebody pauses a lane, and resumes it", calls | submit, 1, 10 * ms, 20 * s, 8, false},
		{IntakePaused, "somebody pauses the intake, and resumes it", calls | submit, 1, 10 * ms, 20 * s, 0, false},
		{ZoneMissing, "the node's machine lacks the time zones of series", claims, 4, 10 * ms, 20 * s, 0, false},
		{TakenAgain, "somebody has records taken in again (chronos rewind)", calls | submit, 1, 0, 0, 64, false},
		{Upgraded, "until now a version ran that keeps no positions", calls | submit, 0, ms, 5 * s, 0, false},
		{WindowChanged, "other windows: the nodes are started anew with them in turn", calls, 6, ms, 5 * s, 8, false},
	}
}

// drawFault draws a fault for the call, or returns false.
func (w *world) drawFault(h *host, op numberedOp) (Fault, bool) {
	if w.faultsOver || len(w.mix[op]) == 0 {
		return Fault{}, false
	}
	rate := w.options.FaultRate
	chances := 10_000
	if op.idle() {
		chances *= 8
	}
	if rate == 0 || h.faults.IntN(chances) >= rate {
		return Fault{}, false
	}
	total := 0
	for _, d := range w.mix[op] {
		total += max(d.weight, 1)
	}
	n := h.faults.IntN(total)
	for _, d := range w.mix[op] {
		if n -= max(d.weight, 1); n < 0 {
			f := Fault{Node: h.number, Op: ops()[op], Nth: h.calls[op], Kind: d.kind}
			d.draw(h.faults, &f)
			if f.Kind == Failover && w.options.Lossy {
				f.Count = h.faults.IntN(20)
			}
			return f, true
		}
	}
	panic("the weights do not add up")
}

// draw fills in how long and how much. Short times are drawn as often as long ones.
func (d *faultDescription) draw(r *rand.Rand, f *Fault) {
	if d.most > 0 {
		most := d.least
		for range r.IntN(16) {
			most *= 2
		}
		f.For = between(r, d.least, min(most, d.most)).Round(time.Millisecond)
		if d.bothWays && oneIn(r, 2) {
			f.For = -f.For
		}
	}
	if d.countMost > 0 {
		f.Count = r.IntN(d.countMost)
		if f.Kind == RateChange && oneIn(r, 2) {
			f.Count = -f.Count
		}
	}
}

// FaultKinds returns all kinds of faults.
func FaultKinds() []FaultKind {
	return mapped(faultKinds(), func(d faultDescription) FaultKind { return d.kind })
}

// About returns what a kind of fault does, in a few words.
func (k FaultKind) About() string {
	d, _ := describe(k)
	return d.text
}

// OpsOf returns the operations that a fault of a kind can strike.
func OpsOf(kind FaultKind) []Op {
	var at []Op
	d, _ := describe(kind)
	for i, op := range ops() {
		if d.at(numberedOp(i)) {
			at = append(at, op)
		}
	}
	return at
}
