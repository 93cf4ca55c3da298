package sim

import (
	"time"

	"chronos/node"
)

// strike lets a fault happen at a call that is about to be sent. Some spoil the call itself; others
// change the world at that moment.
func (c *call) strike(f Fault) {
	l := c.task.life
	h := l.host
	w := h.world
	w.struck(f, l)
	c.spoilt()
	switch f.Kind {
	case CrashBefore:
		c.restart = f.For
		c.crashNow()
		panic(unwound{})
	case CrashSent, CrashApplied, CrashReplied:
		c.crash, c.restart = f.Kind, f.For
	case Pause, Suspended:
		if f.Kind == Suspended {
			l.suspend(f.For)
		} else {
			l.pause(f.For)
		}
		turn := c.task.parking()
		w.at(w.now, c.task, turn)
		c.task.park()
	case PauseSent:
		c.pauseSent = f.For
	case RequestLost:
		c.lost = true
	case ReplyLost:
		c.unanswered = true
	case Refused:
		c.refused = true
	case Disconnected:
		c.disconnected = true
	case Late:
		c.late = f.For
	case Slow:
		c.slow = f.For
	case Partial:
		c.partial = f.Count
	case Locked:
		c.locked = f.For
	case RolledBack:
		c.locked, c.rolledBack = f.For, true
	case Duplicate:
		c.duplicated = true
	default:
		w.disturb(f, h)
	}
}

// disturb lets a fault happen that is not about one call.
func (w *world) disturb(f Fault, h *host) { //nolint:funlen // a table
	until := w.now + int64(f.For)
	switch f.Kind {
	case StoreDown:
		w.store.refuses = max(w.store.refuses, until)
	case StoreSilent:
		w.store.silent = max(w.store.silent, until)
	case Failover:
		w.store.failover(f.For, f.Count)
	case StoreStep:
		w.store.clock.offset += int64(f.For)
		w.recorder.storeStepped()
	case BrokerDown:
		w.broker.goAway(until)
	case LeaderChange:
		w.broker.changeLeader(f.Count, until)
	case TopicMissing:
		w.broker.missTopic(f.Count, until)
	case CutStore, CutStoreReplies:
		h.storeLink.cut(until, f.Kind == CutStore)
	case CutBroker, CutBrokerAcks:
		h.brokerLink.cut(until, f.Kind == CutBroker)
		w.broker.linkChanged(h)
		w.after(f.For, func() { w.broker.linkChanged(h) })
	case WallStep:
		h.clock.offset += int64(f.For)
		w.recorder.stepped(h)
	case RateChange:
		h.clock.rate(w.now, int64(f.Count))
	case Rebalanced:
		w.broker.group.shuffle()
	case Expelled:
		if h.life != nil && h.life.member != nil {
			w.broker.group.expel(h.life.member, f.For)
		}
	case Rewound:
		w.broker.group.rewind(f.Count)
	case StoreUnfit:
		w.store.unfit = max(w.store.unfit, until)
	case StandbyStalls:
		w.store.stall(until)
	case Cluttered:
		w.store.cluttered, w.store.clutter = max(w.store.cluttered, until), time.Duration(f.Count)*time.Millisecond
	case SetBack, SetBackUnseen:
		w.store.setBack(f.For, f.Kind == SetBack)
	case Truncated:
		w.broker.truncate(f.Count, f.Count/8)
	case Retention:
		w.broker.retain(f.Count, f.Count/4)
	case Recreated:
		w.broker.recreate(f.Count)
	case PartitionAdded:
		w.broker.addPartition(f.Count)
	case OffsetsLost:
		w.broker.group.forgetOffsets()
	case LanePaused:
		lanes := w.options.lanes()
		w.store.pause(lanes[f.Count%len(lanes)], until)
	case TakenAgain:
		w.store.takeAgain(f.Count, int64(1+f.Count/4))
	case Upgraded:
		// Not from within the call, whose process ends by it.
		w.after(time.Microsecond, func() { w.upgrade(f.For) })
	case RowsLocked:
		lanes := w.options.lanes()
		w.store.lockRows(lanes[f.Count%len(lanes)], until)
	case IntakePaused:
		w.store.pause(node.Intake, until)
	case ZoneMissing:
		h.unread = max(h.unread, until)
	case WindowChanged:
		w.changeWindows(f.Count, f.For)
	case LaneHangs, PartitionHangs:
		w.broker.hang(f.Count, f.Kind == LaneHangs, until)
	case CutPartition:
		w.broker.cut(f.Count, h, until)
	case Stopped:
		if l := h.life; l != nil {
			// Not from within the call: the process hears of it a moment later.
			w.after(time.Microsecond, func() {
				if !l.dead && !w.faultsOver {
					l.stop()
					h.startIn(f.For)
				}
			})
		}
	default:
		panic("sim: nothing lets " + string(f.Kind) + " happen")
	}
}
