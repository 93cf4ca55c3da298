package node

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
)

// Store keeps the messages that wait, the claims on those that are ready, and the positions up to which the input
// topics have been taken in. It is shared by all nodes and is the only place where they meet.
//
// CatchUp is one transaction: all of a call, or nothing of it. Take is atomic per partition: all that it does for the
// records of one, its position included, or nothing of that; and what stands in no partition is all or nothing
// together. The other calls are atomic per message: another caller sees a message before the call or after it, never
// half-way; a batch as a whole need not be. An error means that the outcome is unknown: the effects may have happened,
// or may still happen (of what is atomic by itself, any subset). Every call may be repeated with the same arguments. A
// call returns within the store timeout of Config, whatever the server does, and ends early when ctx is done.
//
// No call waits for a lock of another session for longer than a moment. A call leaves alone what is locked, says so,
// and does the rest:
//
//   - Claim and Expired pass over it.
//   - Settle and Reset answer Busy for it.
//   - Take answers Blocked for an item about a message whose row is locked, or whose name another session is just
//     inserting. In a partition the items before it are taken in as ever, the position moves up to it, and those behind
//     it that are to be taken in are Untaken. Other partitions are not affected; an item of theirs about the same
//     message is a Blocked, too. So is, alone, an item that stands in no partition (NoPlace).
//   - Where the row of a partition itself is locked, all items of that partition are Blocked, and it is not refused.
//
// While a lineage catches up (State.CatchingUp), a record that is Blocked keeps it from doing so, and nothing is
// claimed on any lane: the record may cancel any message.
//
// After the lock is released the same call finds what it has left. A lock on a whole table is waited for, and fails a
// call at its time limit. A store that only one process can open never answers Busy.
//
// What a call has answered is durable: a store that waits for a synchronous standby waits before each answer that
// rests on a commit, its own or an earlier one of unknown outcome.
//
// The store has one clock (for a database, the server's) and uses it for the expiry of claims and for the gate of a
// catch-up. Every other instant is an argument. It draws no randomness. All instants are UTC in whole microseconds.
//
// Arguments belong to the caller and are not kept or changed; results belong to the caller too, and share no
// memory with the store.
type Store interface { //nolint:interfacebloat // each call is one thing that happens to a message
	// Bind says which Kafka cluster and consumer group the store belongs to, see BindRequest, and returns what it
	// belongs to after the call.
	Bind(ctx context.Context, request BindRequest) (Bound, error)

	// Positions returns the position of each place's partition, in order, and the state of the store. A
	// partition that has no position is given that of its place: nothing else creates one. No partition comes
	// twice.
	Positions(ctx context.Context, places []Place) ([]Position, State, error)

	// Take takes in records, see TakeRequest: it moves positions and stores messages, for each partition in one
	// transaction. While nothing is to be taken in (State.Takes), it refuses every partition, and so does nothing.
	Take(ctx context.Context, request TakeRequest) (TakeResult, error)

	// CatchUp begins a new lineage, or brings the marks of one that catches up to date, see CatchUpRequest. It
	// returns the state after the call.
	CatchUp(ctx context.Context, request CatchUpRequest) (State, error)

	// Claim claims, on the part of each share of request.Lanes (see Part), waiting messages that fall due at or before
	// request.Until, and not before what the share begins with (Share.From), for request.Node, the earliest of them
	// first (ties by id), skipping those that another caller is claiming at this moment. It returns them in the order
	// of their due times (ties by id, then lane), and says of those that stand in a line whose turn it is (see Turn).
	// While the store catches up, or is suspect, it claims nothing; nor on a lane that is paused (see Switches).
	//
	// An error may come with a result, if the store claims by several transactions and a later one has failed: then
	// Messages are claimed for certain, and State is that of when they were. As ever, others may have been claimed.
	Claim(ctx context.Context, request ClaimRequest) (ClaimResult, error)

	// Settle settles messages, each only if its incarnation is still stored, whoever holds its claim now, or nobody. It
	// returns for each, in order, what became of it:
	//
	//   - Rearmed: the next occurrence takes its place, with the same content, unclaimed, parked nowhere, and as if it
	//     had just been stored.
	//   - Removed: the message is removed. None follows, or the row says that the series was stopped: the store decides
	//     that, since a node may not know it.
	//   - Promised: it was to be passed over (Next.Missed) and is bound, so it stays as it is.
	//   - Gone: there is no message of that id, lane and incarnation.
	//   - Busy: the row is locked, and nothing has happened to it.
	//
	// A message that stood behind one that was removed or rearmed in its line comes forward, see Turn.
	Settle(ctx context.Context, next []Next) ([]Settled, error)

	// Expired returns at most limit claims that have expired by the store's clock, the longest expired first. It
	// passes over those that are locked. It changes nothing, and keeps no lock. limit is at least 1.
	Expired(ctx context.Context, limit int) ([]Claim, error)

	// Parts returns the parts of lanes on which messages wait, in the order of their lanes and names, at most MaxParts.
	// It changes nothing and locks nothing.
	Parts(ctx context.Context) ([]Part, error)

	// Reset turns ready messages back into waiting ones, each only if it is still held by exactly the claim
	// given (id, lane, incarnation, ReadiedAt and ReadiedBy), and parks those that are to be parked. It returns for
	// each release, in order, what became of it: Freed; Gone if nobody holds that claim any more; or Busy if the row is
	// locked, and nothing has happened to it.
	Reset(ctx context.Context, releases []Release) ([]Settled, error)
}

// Part is where a message waits: on a lane, or parked on a part of it.
//
// A part is what fails as a unit within a lane, and it has the name that the sink gives it: the number of an output
// partition, or the host of a callback. Most messages wait on their lane, whatever part they belong to. A message whose
// part does not answer is parked there (Release.Part), so that it is in nobody's way: only claims for that part find
// it, and a node makes few of these until the part answers. Nobody moves it back. It is published from where it is, and
// goes wherever it belongs by then: a name that has lost its meaning costs one claim.
//
// Whatever gives a message another incarnation or deadline, such as a replacement or the next occurrence of a series,
// has it wait on its lane.
type Part struct {
	Lane string

	// Name is the name of the part, at most MaxPartName bytes of valid UTF-8 without a zero byte; empty for the lane
	// itself.
	Name string
}

// Compare orders parts by lane, then by name: the lane itself comes before its parts.
func (p Part) Compare(q Part) int {
	return cmp.Or(cmp.Compare(p.Lane, q.Lane), cmp.Compare(p.Name, q.Name))
}

// LanesOf returns the lanes of parts that are in order, each once.
func LanesOf(parts []Part) []string {
	lanes := make([]string, 0, len(parts))
	for _, p := range parts {
		if n := len(lanes); n == 0 || lanes[n-1] != p.Lane {
			lanes = append(lanes, p.Lane)
		}
	}
	return lanes
}

const (
	// MaxLanes is the largest number of lanes that are looked at together, or shown.
	MaxLanes = 1000

	// MaxParts is the largest number of parts that Store.Parts returns, lanes included. A node parks on no more than
	// half as many (mostParts).
	MaxParts = 2 * MaxLanes

	// MaxPartName is the largest length of the name of a part, in bytes.
	MaxPartName = 255
)

// MessageID names a message of any incarnation.
type MessageID struct {
	ID   string
	Lane string
}

// Partition names a partition of one topic. A topic that was deleted and created again under its name has another
// TopicID, and is another topic. TopicID and Number are the name, Topic is for people: a TopicID never comes with two.
type Partition struct {
	Topic   string
	TopicID uuid.UUID
	Number  int32
}

// Position is how far a partition has been taken in: all records before Offset. Epoch is the leader epoch of the
// record before Offset, and tells apart what two leaders have written at one offset when Kafka has lost the end of
// a log (a truncation). It is UnknownEpoch where nobody knows it; then offsets alone count.
type Position struct {
	Epoch  int32
	Offset int64
}

// UnknownEpoch is the Epoch of a Position that does not know it.
const UnknownEpoch = -1

// Takes reports whether a record at that epoch and offset is still to be taken in where p is the position: its
// epoch is higher, or equal and its offset not lower. A record of a lower epoch is of an end of the log that Kafka
// has lost. Where either epoch is unknown, the offsets decide.
func (p Position) Takes(epoch int32, offset int64) bool {
	if p.Epoch == UnknownEpoch || epoch == UnknownEpoch || epoch == p.Epoch {
		return offset >= p.Offset
	}
	return epoch > p.Epoch
}

// Above reports whether p lies above q in its epoch or in its offset: a batch that starts at p would leave a gap
// where q is the position. An epoch that is unknown lies above none.
func (p Position) Above(q Position) bool {
	return p.Offset > q.Offset || p.Epoch != UnknownEpoch && q.Epoch != UnknownEpoch && p.Epoch > q.Epoch
}

// Before reports whether p is where a position would be that was q and was lowered. A position that has moved to a
// lower offset under a higher epoch was not: Kafka has lost the end of the log.
func (p Position) Before(q Position) bool {
	if p.Epoch == UnknownEpoch || q.Epoch == UnknownEpoch || p.Epoch == q.Epoch {
		return p.Offset < q.Offset
	}
	return p.Epoch < q.Epoch
}

// Place is a position in a partition.
type Place struct {
	Partition
	Position
}

// State is what a store says of itself.
type State struct {
	// Lineage numbers the histories of the store, from 1. It goes up when the store was set back, or a position was
	// lowered: what was true of an earlier lineage need not be true of this one.
	Lineage int64

	// CatchingUp says that the lineage has just begun: some partition has not been taken in again up to its mark, or
	// claims from before may still be held. Nothing is claimed until then.
	CatchingUp bool

	// Holding says that claims from before the lineage may still be held. Until they have expired nothing is taken in,
	// either: a take is refused for all partitions. Otherwise this would happen:
	//
	//	A claims x
	//	                  the store is set back to before that; lineage 2 begins
	//	                  x and its cancel are taken in again: cancelled
	//	A, which has not heard of it, publishes x
	Holding bool

	// HoldingCalls says that claims from before the lineage have expired, but that callbacks may still be under way
	// that were begun under them. Until these have ended, nothing is claimed on callback lanes, and an instruction on
	// them other than Schedule is not decided: it is Blocked. Everything else goes on.
	HoldingCalls bool

	// IntakePaused says that somebody has paused the intake: a take is refused for all partitions until somebody
	// resumes it. Messages are claimed nevertheless. A store that catches up cannot get on meanwhile.
	IntakePaused bool

	// Suspect says that the server may have been set back, because its history is not the one that it had when the
	// lineage began (of a Postgres server: another timeline). Nothing is claimed until a new lineage has begun, nor
	// taken in: a standby that was promoted may lack a claim and have the position all the same.
	//
	//	A claims x
	//	                  the standby, which lacks that, is promoted
	//	                  x's cancel is taken in: cancelled
	//	A, which has not heard of it, publishes x
	Suspect bool
}

// Claims reports whether messages may be claimed.
func (s State) Claims() bool { return !s.CatchingUp && !s.Suspect }

// ClaimsOn reports whether messages may be claimed on a lane, unless it is paused.
func (s State) ClaimsOn(lane string) bool {
	return s.Claims() && (!s.HoldingCalls || !IsCallback(lane))
}

// Holds reports whether an item waits for callbacks that are under way, see HoldingCalls: it is Blocked.
func (s State) Holds(item *Item) bool {
	return s.HoldingCalls && IsCallback(item.Lane) && item.Action != Schedule && item.Action != Pass
}

// Takes reports whether records may be taken in.
func (s State) Takes() bool { return !s.Holding && !s.IntakePaused && !s.Suspect }

// BindRequest is the argument of Store.Bind. A store belongs to one cluster and one group from its first Bind on: a
// second one would cover the messages of the first with its ids, and move its positions.
type BindRequest struct {
	// Cluster is the id of the Kafka cluster, and Group the name of the consumer group. If both are empty, the call
	// changes nothing, and only looks.
	Cluster, Group string

	// Force binds a store anew that belongs to others. Somebody has decided that. Positions and messages stay.
	Force bool

	// Adopt are the positions to begin with, which are stored together with the adoption if Bound.Adopting was true:
	// what the consumer group of an older deployment, which kept no positions in its store, has committed. Partitions
	// that have a position keep it. nil adopts nothing; an empty slice adopts that nothing was committed. A store that
	// belongs to others after the call adopts nothing.
	Adopt []Place
}

// Bound is what a store belongs to. Its Cluster and Group are those of the request, unless it belongs to others.
type Bound struct {
	Cluster, Group string

	// Adopting says that the store comes from an older deployment and waits for the one adoption of its positions.
	Adopting bool

	// Partitions is how many positions there are.
	Partitions int
}

// TakeRequest is the argument of Store.Take.
type TakeRequest struct {
	// Node is the node id that claims are made for, and Hold the time after which they expire.
	Node uuid.UUID
	Hold time.Duration

	// From says where the caller's reading of each partition has started: where its last accepted take, or the
	// assignment, left off. No partition comes twice. A partition whose position is below that start is refused
	// whole, since something before it has not been taken in; so is one without a position, and every one while the
	// state says so (State.Takes).
	From []Place

	// Items are records, in offset order within each partition. Each is decided on by the position that its
	// partition had before the call: what is below it was taken in before, and is skipped. The last one of a partition
	// that is not skipped sets its position, be it upwards or downwards. Among them may stand items that are no records
	// (NoPlace); all are decided in the order in which they stand here. No two of them have one incarnation.
	Items []Item
}

// NoPlace is the From of an item that is no record and stands in no partition: an instruction that an operator gives
// to the store itself, past Kafka. No position refuses it, skips it, or is moved by it; while nothing is taken in
// (State.Takes) it is Untaken like every other item. The store does not remember it, unless it has a Request, so a
// repeat of it is decided anew: of a cancel that has taken effect, not_found. So a repeat brings another Incarnation,
// unless it names the one that it acts on: of a series it may act on the next occurrence, and what settles the one
// before by its incarnation must not find the next one under it. Nor does Kafka keep it: a store that is set back loses
// it.
const NoPlace = -1

// Item is one record of a take, or an instruction that has come past Kafka.
type Item struct {
	// From is the index of its partition in TakeRequest.From, and Epoch and Offset its place there; or it is NoPlace,
	// and the other two are zero.
	From   int
	Epoch  int32
	Offset int64

	// Action says what to do for the record.
	Action Action

	// Only is the one incarnation that the instruction acts on; the zero value for whichever there is. If another one
	// is stored, or none, the outcome is NotFound, and nothing changes. Whoever has chosen a message by what it says
	// needs that. Otherwise this would happen:
	//
	//	somebody lists x, which is to be cancelled for its key
	//	                  x comes out; another x, with another key, is stored
	//	cancel x: cancelled, although nobody has asked for that
	Only uuid.UUID

	// Message is what the action is about; the zero value for Pass. Schedule and Replace bring all of it, and its due
	// time is its deadline. The others bring ID and Lane; Reschedule and FireNow the Deadline from now on as well, and
	// the Incarnation that the message has with it.
	Message

	// Beside names the message that an item in no partition (NoPlace) stores another one with: the dead letter of a
	// callback. Where a store has places of its own for messages, the other one is where that one is, and if that is
	// not there, or is another incarnation by now, the item is Untaken. Other stores pass over it. The zero value for
	// no message.
	Beside Ref

	// Claim asks that the message is stored as claimed by TakeRequest.Node from the start; only with Schedule and
	// Replace, and for what stands in no line. If the store catches up, or is suspect, or the lane is paused, when the
	// call begins, it is stored as waiting; nor is a claim given on what a later item of the request has removed,
	// replaced or moved.
	Claim bool

	// Answer is whom to tell of the outcome, in a message of its own that is stored with the effect (Item.Reply); nil
	// for nobody.
	Answer *Answer

	// Request has the store remember what it answers, and give the same answer again: if there is one under its ID,
	// that is the result (ItemResult.Told), and nothing else is done for the item. nil for none; not with Pass, and of
	// records only where Config.Requests says that the store does that. Nothing is remembered of an item that is
	// Untaken or refused.
	Request *Request
}

// TakeResult is what became of a take.
type TakeResult struct {
	State State

	// Positions are those of the partitions of TakeRequest.From after the call, in order, and Refused tells for
	// each whether it was refused. A partition without a position is refused, and its Position is the zero value.
	Positions []Position
	Refused   []bool

	// Taken is how many of the items were dealt with: all of them, unless the store can never keep the message at
	// that index, and says in Refusal, in one sentence, why. The items before it are taken in, and that one and
	// those after it are not. Every message for which Message.Refusal has a reason is refused, with that sentence, if
	// its record is to be taken in; what is Untaken or was taken in before is not looked at.
	Taken   int
	Refusal string

	// Results has one element for each of the first Taken items.
	Results []ItemResult
}

// ItemResult is what became of one item of a take.
type ItemResult struct {
	Outcome Outcome

	// Claim is the claim that TakeRequest.Node holds on this incarnation after the call, zero when it holds
	// none. So a repeated take returns the claims that the first one made, if they are still held.
	Claim Claim

	// Told is the answer to Item.Request; nil where there is none, and where nothing is taken in.
	Told *Told
}

// CatchUpRequest is the argument of Store.CatchUp.
//
// A store that is set back, to a backup or to a standby that lacks the last commits, has its positions set back with
// it, and so everything that Kafka still has is taken in again. Until that is done a message could fire whose
// cancel is yet to come in again. So a new lineage catches up first: nothing is claimed until every partition has
// been taken in up to its mark, the end of its log when the lineage began, and until the claims of before, of which
// the store may know nothing, have expired.
type CatchUpRequest struct {
	// Lineage is the lineage that the caller has seen. If the store is in another, the call does nothing.
	Lineage int64

	// Begin begins a new lineage, with the next number above Lineage and Floor, that of the highest lineage that the
	// caller knows of: a store that was set back has forgotten some. Without Begin the marks of partitions that are not
	// in Marks are given up, and none of the others is raised.
	Begin bool
	Floor int64

	// Hold is how long after the beginning nothing is claimed, by the store's clock, and Calls how much longer nothing
	// on callback lanes is (State.HoldingCalls); only with Begin.
	Hold, Calls time.Duration

	// Marks are the ends of the logs of all partitions of all input topics. A partition that has no position is given
	// one at Extent.First, with UnknownEpoch. A mark that the position (after Rewind) has reached already is none,
	// nor is one that Extent.First has reached: retention took what lies below it, and no record may ever come that
	// moves the position past it. One that was reached once stays so, whatever the position does then.
	Marks []Extent

	// Rewind are positions to lower, or to set where there are none; only with Begin. They are the only way in which a
	// position is lowered on purpose. One that is not Before the position that there is changes nothing: it may have
	// been looked up before that was lowered by a take.
	//
	//	the position is 100; somebody wants it to be 50
	//	                  Kafka loses the log from 30 on; other records come, and are taken in up to 35
	//	the position is set to 50: what comes at 35 to 49 is never taken in
	Rewind []Place
}

// ClaimRequest is the argument of Store.Claim.
type ClaimRequest struct {
	// Node is the node id that takes the claims, and Hold the time after which they expire.
	Node uuid.UUID
	Hold time.Duration

	// Until is the latest due time that is claimed.
	Until time.Time

	// Lanes are the parts of lanes to claim on, none of them twice, and what may be claimed on each.
	Lanes []Share

	// Bytes bounds the sizes (Message.Size) of all claimed messages together, in the order of Lanes: the message that
	// reaches the bound is the last, and the lanes after its own are not looked at, see Reached. 0 for no bound.
	Bytes int

	// Ahead asks for ClaimResult.Idle, and is the most that it may say; 0 for not asking.
	Ahead time.Duration
}

// Reached returns how many of Lanes a claim has looked at that has claimed these messages: all of them, unless Bytes
// was the end of it. Then it says nothing of the others, and there may be more on the last one.
func (r *ClaimRequest) Reached(claimed []Ready) (lanes int, all bool) {
	size := 0
	for i := range claimed {
		size += claimed[i].Size()
	}
	if r.Bytes <= 0 || size < r.Bytes {
		return len(r.Lanes), true
	}
	some := make(map[Part]bool, len(claimed))
	for i := range claimed {
		some[claimed[i].Where()] = true
	}
	for i, share := range r.Lanes {
		if some[share.Where()] {
			lanes = i + 1
		}
	}
	return lanes, false
}

// Share is how much may be claimed on a part of a lane.
type Share struct {
	Lane string

	// Part is the name of the part whose parked messages are claimed; empty for the lane itself: for all that is not
	// parked.
	Part string

	// Limit is the largest number of messages to claim, at least 1.
	Limit int

	// Bytes bounds the sizes (Message.Size) of the claimed messages together: the message that reaches the
	// bound is the last. At least 1, so that one message is always claimed.
	Bytes int

	// From is the earliest due time that is claimed; the zero time for none. It says nothing of what waits before it.
	From time.Time
}

// Where returns the part of the share.
func (s Share) Where() Part { return Part{s.Lane, s.Part} }

// ClaimResult is what Store.Claim has claimed.
type ClaimResult struct {
	State    State
	Messages []Ready

	// Unreadable are the lanes on which something was claimed that the store cannot read, since somebody has changed a
	// row by hand: each once. It keeps its claim, and is not among Messages. So of such a lane there may be less here
	// than its share, and more behind that.
	Unreadable []string

	// Idle says that after the call nobody held a claim, on whatever lane, nothing was parked on the lanes of the
	// request, and nothing that waited there, paused or not, was due before Until + Idle: so whoever changes nothing,
	// and hears of no change, need not look for so long. 0 to ClaimRequest.Ahead. 0 says nothing: a store need not
	// know, and does not while it claims nothing (State.Claims).
	Idle time.Duration
}

// Ready is a message that has become ready, with the claim on it.
type Ready struct {
	Message

	// Due is when it fell due: its deadline, or until when it was put off.
	Due time.Time

	// Part is the name of the part on which it is parked; empty if it is not.
	Part string

	Claim Claim

	// Attempts is how many claims on this incarnation may have led to a publish, this one included: each claim counts
	// one, and a release that knows that nothing was appended takes it back.
	Attempts int

	// Bound says that somebody has been told, before this claim, that the message comes out: see Kept.
	Bound bool

	// Turn says whether it may come out before others of its line.
	Turn Turn
}

// Where returns where it waited.
func (r *Ready) Where() Part { return Part{r.Lane, r.Part} }

// Turn reports whether a message that was claimed may come out now, as far as its line goes. Of the messages of a
// lane with one Line (Message.Line), the first is the one with the earliest deadline, ties by id; one after the other
// comes out, each when the one before it is settled.
//
// That rests on what a claim finds when it has been made, for all to see. Of two messages of a line that two nodes
// claim at the same time, whichever claim sees the other's as made earlier leaves it alone, and so at most one of them
// has its turn; that both stand back for each other, for a moment, is the price.
//
// A message that has not its turn stands back: its claim is given up, and it is looked at again a while later
// (Release.Behind). It need not wait for that: when Settle has settled a message of the line, or Reset has
// one stand back, the one that is first then comes forward, that is, it falls due at its deadline, if it has stood
// back. And if it is itself first by the time that it stands back, it is not put off.
//
// So the first one need not be looked at, as long as anybody of its line is: that matters when it is cancelled, which
// brings nobody forward, or when a node dies between a settlement and what follows it. And so of thousands that stand
// behind one that fails nearly all can be left alone for long.
type Turn int

const (
	// ItsTurn says that the message is the first of its line, and nobody else has a claim on another one of the line;
	// or it stands in no line.
	ItsTurn Turn = iota

	// Behind says that the message is not the first of its line.
	Behind

	// InTheWay says that the message is the first of its line, but another one of the line is claimed, by a call of
	// before; or, where the claim comes with an error, that nobody could find out whose turn it is.
	InTheWay
)

// Release gives a claim up.
type Release struct {
	Claim

	// Part is the name of the part on which the message is parked from then on; empty for none: it waits on its lane.
	Part string

	// Due is when the message falls due next; the zero time leaves it as it is. A message that could not be
	// published is put off by it, so that it is not in the way of others. The deadline does not change.
	Due time.Time

	// Unsent says that nothing was appended under this claim, for certain: it does not count as an attempt.
	Unsent bool

	// Behind says that the message stands back, since it had not its turn. Due is for a message that is not the first
	// of its line; otherwise its due time stays as it is. Whoever is first in its line then comes forward, see Turn.
	Behind bool
}
