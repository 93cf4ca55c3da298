package check

import "time"

const (
	// lateFor is how long after it fell due a message may be stored and still count as one that has just fallen due.
	lateFor = time.Second

	// mostCounted is how many claims are looked through for one message. Where more were made on its lane while it
	// waited, nothing is said of it: that would be as many looks as there are messages, for each of them.
	mostCounted = 10_000
)

// taking is a claim on a lane: when the message was due, and whether it was stored as claimed.
type taking struct {
	due    time.Duration
	stored bool
}

// l20 is the invariant L20, shared. Like L11 it looks at how long a message has waited when it is claimed, or in the
// end.
func l20(s *state, e *Event) finding {
	if e.Kind == Claim {
		if r := s.rowOf(e); r != nil {
			return s.passed(r, e.At)
		}
		return holds()
	}
	for _, r := range s.left() {
		if f := s.passed(r, e.At); f.detail != "" {
			return f
		}
	}
	return holds()
}

// passed finds a message that has just fallen due on a lane with a backlog and waits for that, and one of the backlog
// that others go before. Where a lane has a pace, a window or lines, what comes must not jump what waits.
func (s *state) passed(r *row, now time.Duration) finding {
	c, topic := &s.config, r.key.topic
	since := max(r.waiting, r.due-c.Lookahead)
	lane := s.lane(topic)
	_, paused := s.paused[topic]
	switch {
	case r.ready() || r.part != "" || now-since <= c.Fair() || s.catching || paused || lane.whole,
		s.unlocked(r.key) > 0:
		return holds()
	case c.pace(topic) > 0 || s.window(topic) != nil || c.Ordered && isCallback(topic):
		return holds()
	case len(lane.takings)-r.ahead > mostCounted:
		return holds()
	case since <= s.wrong+s.forgiven() || !s.served(topic, since-s.forgiven()):
		return holds()
	}
	near, earlier, later := 0, 0, 0
	for _, t := range lane.takings[r.ahead:] {
		switch {
		case t.due > r.due && !t.stored:
			later++
		case t.due <= r.due:
			earlier++
		}
		near += count(t.due <= r.due && t.due >= r.due-c.stretch())
	}
	if fresh := r.due-c.TimingAdvance-2*c.ClockError >= r.waiting-lateFor; fresh && now-since > c.Shared(near) {
		return brokenBy(r.submission, "nobody has claimed it for %v, which had just fallen due, after %d others of %s",
			now-since, near, topic)
	}
	if later > earlier+max(1, c.Nodes)*c.Batch {
		return brokenBy(r.submission, "it waits for %v; %d of %s that fell due later were claimed, and %d earlier ones",
			now-since, later, topic, earlier)
	}
	return holds()
}

// forgiven is the time after which a mistake is forgotten: who has repeated a call looks again, and who stood back.
func (s *state) forgiven() time.Duration {
	c := &s.config
	return 2*c.Retry + c.StandBack + 2*c.StoreTimeout + c.PublishTimeout
}

// turn bounds the time between two claims on a lane that has more to claim: there has to be room for it.
func (c *Config) turn() time.Duration { return c.Look()*11/10 + 3*c.StoreLatency + c.BrokerLatency }

// stretch is how long before a message others may have fallen due that are claimed before it, as having just done so.
func (c *Config) stretch() time.Duration {
	return lateFor + c.Lookahead + c.TimingAdvance + 2*c.ClockError + c.Look()*11/10 + c.turn()
}

// Shared bounds the time that a message waits for its claim on a lane that has a backlog, although it has just fallen
// due (L20), where so many others were claimed that had: the lane is looked at so once in each poll interval, for half
// a share, and once more after each claim from the oldest on.
func (c *Config) Shared(near int) time.Duration {
	return c.Fair() + c.Look()*11/10 + time.Duration(2+4*near/c.Share())*c.turn()
}

// l21 is the invariant L21, beside a silent partition. Which partition a message belongs to is known once it comes out.
func l21(s *state, e *Event) finding {
	l, to := s.silence(e)
	if l == nil || l.silent == nil || to != nil {
		return holds()
	}
	bound := s.config.Beside
	if i := s.incarnations[e.Incarnation]; i != nil && i.failedAt > 0 { // it has no key, and went to the one that hangs
		bound = func(near int) time.Duration { return s.config.Beside(near) + s.config.Retry }
	}
	return s.besides(e, bound, "beside a partition that hangs")
}

// l22 is the invariant L22, by way of a peer.
func l22(s *state, e *Event) finding {
	_, to := s.silence(e)
	if to == nil || to[""] || len(to) >= s.config.Nodes {
		return holds()
	}
	return s.besides(e, s.config.Around, "although some node reaches its partition")
}

// silence returns the lane of a message that fires, if nothing else has gone wrong than that single partitions hang, or
// that nodes do not reach them, and to whom the partition of the message was silent.
func (s *state) silence(e *Event) (l *lane, to map[string]bool) {
	sub := s.submissions[e.Message]
	if sub == nil || sub.fires > 0 || s.delayed(sub) > 0 {
		return nil, nil
	}
	if s.faults+s.pauses > 0 || s.lineages > 0 || sub.at < s.config.Settle {
		return nil, nil
	}
	if l = s.lane(sub.key.topic); l.whole {
		return nil, nil
	}
	return l, l.silent[e.Partition]
}

// besides finds a message that fires later than it may, with so many others that had just fallen due. Of the time after
// the healing, in which all partitions answer, nothing is said.
func (s *state) besides(e *Event, bound func(near int) time.Duration, how string) finding {
	sub := s.submissions[e.Message]
	c, topic := &s.config, sub.key.topic
	now, due := e.At, sub.deadline
	if s.healed >= 0 {
		now = s.healed
	}
	if !c.Adaptive {
		due -= c.TimingAdvance
	}
	switch late := now - max(due, sub.at); {
	case isCallback(topic) || c.pace(topic) > 0 || s.window(topic) != nil:
	case sub.at > due+lateFor:
	case late <= bound(0): // as most are; to judge the others costs more
	case late > bound(s.near(sub)):
		return brokenBy(sub, "it fires %v late %s, more than %v", late, how, bound(s.near(sub)))
	}
	return holds()
}

// near returns how many of its lane fall due with a message, or so little before it that they may be claimed first.
func (s *state) near(sub *submission) int {
	n := 0
	for _, other := range s.inOrder() {
		n += count(other.key.topic == sub.key.topic && other.deadline <= sub.deadline &&
			other.deadline >= sub.deadline-s.config.stretch()-s.config.Turn())
	}
	return n
}

// Beside bounds the lateness of a message whose lane has other partitions that hang (L21), with so many others that
// have just fallen due: it may wait until a publish is given up, once for each node and silence, and otherwise as
// beside any backlog.
func (c *Config) Beside(near int) time.Duration { return c.Turn() + c.Shared(near) }

// Around bounds the lateness of a message whose partition some nodes do not reach (L22). One of them may claim it first
// and park it, and a node that reaches the partition finds the part with its next look for claims that have expired.
func (c *Config) Around(near int) time.Duration {
	return c.Beside(near) + c.DetectionInterval*11/10
}
