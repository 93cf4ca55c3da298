package model

// action is a step that a world can take.
type action struct {
	kind    kind
	node    uint8
	slot    uint8
	outcome outcome
	option  uint8
}

// kind is what happens in a step.
type kind uint8

const (
	actSubmit kind = iota
	actPoll        // option: how many records
	actInsert      // option: one of the insert options
	actLook
	actDirect // a consumer's publish of what has lapsed
	actCommit
	actSelect
	actClaim
	actBegin   // found young enough, the publish is sent
	actPublish // its outcome
	actGiveBack
	actDelete
	actSuspect
	actReset
	actLate // the late request takes effect
	actDrop // the late request is lost
	actCrash
	actRebalance
	actLag
	actFailover
)

// outcome is what becomes of a call.
type outcome uint8

const (
	outcomeReplied   outcome = iota
	outcomeReplyLost         // it took effect, and the caller does not know
	outcomeLate              // the caller has given up, and it may still take effect
)

// Options of an insert.
const (
	insertWaiting uint8 = iota
	insertReady         // as claimed by the inserting node
	insertTakeUp        // a repeated one, which takes up the claim that it is told of
)

// Options of a crash: which of the node's calls is on its way at that moment, and stays so.
const (
	crashNothing uint8 = iota
	crashInsertWaiting
	crashInsertReady
	crashDirect
	crashSlot0
	crashSlot1
	crashReset
)

// rebalanceLeave is the option of a rebalance that the owner of the partition has asked for.
const rebalanceLeave = 1

// fault tells whether a step is one that need not happen.
func (a action) fault() bool {
	return a.outcome != outcomeReplied || a.kind >= actCrash
}

func (a action) pack() uint16 {
	return uint16(a.kind) | uint16(a.node)<<5 | uint16(a.slot)<<6 | uint16(a.outcome)<<7 | uint16(a.option)<<9
}

func unpackAction(p uint16) action {
	return action{
		kind: kind(p & 31), node: uint8(p >> 5 & 1), slot: uint8(p >> 6 & 1), outcome: outcome(p >> 7 & 3),
		option: uint8(p >> 9 & 7),
	}
}
