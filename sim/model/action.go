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
	actAssign      // a node begins to consume, at the position of the store
	actPoll        // option: how many records
	actTake        // option: one of the take options
	actCommit
	actCompare // a node compares the store's position with its own
	actDirect  // rules.PublishPast: a step of the publish past the store
	actSelect
	actClaim
	actBegin   // found young enough, the publish is sent
	actPublish // its outcome
	actGiveBack
	actDelete
	actSuspect
	actReset
	actLate     // the late request takes effect
	actDrop     // the late request is lost
	actConnect  // a node connects to the store that was set back
	actHoldOver // one hold time has passed since that was noticed
	actCrash
	actRebalance
	actLag
	actFailover
	actTruncate // option: how many records Kafka keeps
	actRecreate
	actRewind // option: the offset to take in from
)

// outcome is what becomes of a call.
type outcome uint8

const (
	outcomeReplied   outcome = iota
	outcomeReplyLost         // it took effect, and the caller does not know
	outcomeLate              // the caller has given up, and it may still take effect
)

// Options of a take.
const (
	takeWaiting uint8 = iota
	takeReady         // what is left of the batch in the store is claimed by the node
	takeUp            // a repeated one, which returns the claim that the first one made
	takeRefused
	takeHalf // one of two transactions, or the look before the transaction, of wrong rules
)

// Options of a crash: which of the node's calls is on its way at that moment, and stays so.
const (
	crashNothing uint8 = iota
	crashTakeWaiting
	crashTakeReady
	crashDirect
	crashSlot0
	crashSlot1
	crashReset
)

// rebalanceLeave is the option of a rebalance that the owner of the partition has asked for.
const rebalanceLeave = 1

// fault reports whether a step is one that need not happen.
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
