package service

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/metrics"
)

// This file is the one judgement of whether the promises are kept: what is due comes out, and what is submitted is
// taken in. Probes, the log, the API and its page, `top`, the doctor and the heartbeats of nodes show it, and judge
// nothing by themselves. It has three questions:
//
//   - For each lane: how old is the oldest message that should have come out, wherever it waits?
//   - For each input partition of this node: how long has a record waited to be taken in?
//   - For each call of the store and of Kafka: has it gone well since it failed?
//
// What somebody has paused, and what a window has closed, is no problem: it is shown where it is.

const (
	// laneLimit is how long a message may be overdue before its lane has a problem, and intakeLimit how long a record
	// may wait, with nothing of its partition taken in, before that has one.
	laneLimit   = 30 * time.Second
	intakeLimit = 30 * time.Second

	// behindLimit is how long a record may wait in a partition that is taken in.
	behindLimit = 5 * time.Minute
)

// observed is what the reporter asks of the metrics; nil where nobody measures.
type observed interface {
	Operations() []metrics.Operation
	Failing(port node.Port) []metrics.Operation
	Unsure(port node.Port) bool
	Intakes() []metrics.Intake
}

// Problems returns what is not well: the store first, then Kafka, topics, the intake, and lanes.
func (r *Reporter) Problems() []admin.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return slices.Concat(r.storeProblems(), r.kafkaProblems(), r.intakeProblems(now), r.laneProblems(now))
}

// isOut reports whether something has failed, and has not gone well since. What answers again is not out, even while
// the log waits to see whether it stays.
func (r *Reporter) isOut(what string) bool {
	o := r.outages[what]
	return o != nil && o.resumed.IsZero()
}

// failing returns the calls of a port that fail.
func (r *Reporter) failing(port node.Port) []metrics.Operation {
	if r.observed == nil {
		return nil
	}
	return r.observed.Failing(port)
}

// tried reports whether calls of a port are measured: then these tell more than events.
func (r *Reporter) tried(port node.Port) bool {
	return r.observed != nil && slices.ContainsFunc(r.observed.Operations(), func(o metrics.Operation) bool {
		return o.Port == port
	})
}

// stillOut reports whether something that has gone well again must not be said to be back: another call of it fails, or
// it depends on what is away.
func (r *Reporter) stillOut(what string) bool {
	kafka := title(node.PortSource, "")
	switch {
	case what == title(node.PortStore, ""):
		return len(r.failing(node.PortStore)) > 0 || r.storeInKafka && (r.isOut(kafka) || r.kafkaUnsure())
	case what == kafka:
		return len(r.failing(node.PortSource)) > 0
	}
	return r.isOut(kafka) || len(r.failing(node.PortSource)) > 0
}

// kafkaUnsure reports whether Kafka fails, or is back for so short a time that this node may not have its partitions
// yet.
func (r *Reporter) kafkaUnsure() bool {
	return r.observed != nil && r.observed.Unsure(node.PortSource)
}

// holdsUp reports whether what fails of the store keeps messages from coming out: takes that fail do not.
func (r *Reporter) holdsUp() bool {
	failing := r.failing(node.PortStore)
	claims := func(o metrics.Operation) bool { return o.Call == "claim" }
	return len(failing) == 0 || slices.ContainsFunc(failing, claims)
}

// storeWhole says what it means that the store does not answer.
const storeWhole = "Until it answers, nothing is taken in, nothing comes out, and no message can be looked up or " +
	"changed. What waits stays in the store, and what is sent meanwhile waits in Kafka. Then the node goes on by " +
	"itself."

// storeProblems says which calls of the store fail, or that none goes well.
func (r *Reporter) storeProblems() (all []admin.Problem) {
	what := title(node.PortStore, "")
	failing := r.failing(node.PortStore)
	if len(failing) == 0 {
		if r.isOut(what) && !r.tried(node.PortStore) {
			o := r.outages[what]
			all = append(all, admin.Problem{
				What: what, Fault: admin.FaultStore, Says: "The store has not answered", Since: o.since.UTC(),
				Cause: o.cause, Effect: storeWhole, Unready: true,
			})
		}
		return all
	}
	first := failing[0]
	last := failing[len(failing)-1].Since // from then on nothing that fails has gone well
	partly := slices.ContainsFunc(r.observed.Operations(), func(o metrics.Operation) bool {
		return o.Port == node.PortStore && !o.Failing && o.Succeeded.After(last)
	})
	if !partly {
		return []admin.Problem{{
			What: what, Fault: admin.FaultStore, Says: "The store has not answered", Since: first.Since.UTC(),
			Cause: cause(first.Err), Effect: storeWhole, Unready: true,
		}}
	}
	for _, o := range failing {
		says, effect := callWords(o.Call)
		all = append(all, admin.Problem{
			What: what, Call: o.Call, Fault: admin.FaultStore, Says: says, Since: o.Since.UTC(), Cause: cause(o.Err),
			Effect: effect, Unready: true,
		})
	}
	return all
}

// callWords says what it means that one call of the store fails while others go well.
func callWords(call string) (says, effect string) {
	switch call {
	case "take":
		return "The store has not taken any messages in", "What is sent meanwhile waits in Kafka, and is lost if " +
			"that lasts longer than the retention of the input topics. What is stored comes out, and can be looked up."
	case "positions", "catch_up":
		return "The store has not told how far the input was taken in", "What is sent meanwhile waits in Kafka. What " +
			"is stored comes out, and can be looked up."
	case "claim":
		return "The store has not let messages be claimed", "Nothing comes out but what is due as it comes in. What " +
			"is sent meanwhile is taken in, and can be looked up."
	case "settle":
		return "The store has not let messages be removed that have come out", "They come out again when their " +
			"claims have expired. The rest goes on."
	case "reset":
		return "The store has not taken messages back that could not be published", "They are tried again when their " +
			"claims have expired. The rest goes on."
	case "expired":
		return "The store has not told which claims have expired", "What a node held that has died does not come " +
			"out. The rest goes on."
	}
	return "The store has not done what " + call + " asks of it", "The other calls go well."
}

// kafkaProblems says that Kafka does not answer, or a topic takes no message.
func (r *Reporter) kafkaProblems() (all []admin.Problem) {
	kafka := title(node.PortSource, "")
	effect := "Until it answers, nothing is taken in and nothing comes out. What waits stays in the store"
	if len(r.storeProblems()) == 0 {
		effect += ", and can be looked up and changed"
	}
	effect += ". Then the node goes on by itself."
	problem := admin.Problem{
		What: kafka, Fault: admin.FaultKafka, Says: "Kafka has not answered", Effect: effect, Unready: true,
	}
	if failing := r.failing(node.PortSource); len(failing) > 0 {
		problem.Since, problem.Cause = failing[0].Since.UTC(), cause(failing[0].Err)
		return []admin.Problem{problem} // its topics are no news
	}
	if r.isOut(kafka) && !r.tried(node.PortSource) {
		problem.Since, problem.Cause = r.outages[kafka].since.UTC(), r.outages[kafka].cause
		return []admin.Problem{problem}
	}
	for _, what := range slices.Sorted(maps.Keys(r.outages)) {
		if lane := laneOf(what); lane != "" && r.isOut(what) {
			all = append(all, admin.Problem{
				What: "topic", Lane: lane, Fault: admin.FaultKafka, Says: "Topic " + lane + " has not taken a message",
				Since: r.outages[what].since.UTC(), Cause: r.outages[what].cause,
				Effect: "What is due on it waits in the store, and is tried again. Other lanes are not held up.",
			})
		}
	}
	return all
}

// intakeProblems says of which partitions records wait to be taken in for too long: one problem for those that stand,
// and one for those that are behind.
func (r *Reporter) intakeProblems(now time.Time) (all []admin.Problem) {
	if r.observed == nil {
		return nil
	}
	if _, paused := r.lateness.paused[node.Intake]; paused {
		return nil
	}
	var stand, behind []metrics.Intake
	for _, i := range r.observed.Intakes() {
		switch {
		case i.Since.IsZero():
		case now.Sub(i.Since) >= intakeLimit && now.Sub(i.Moved) >= intakeLimit:
			stand = append(stand, i)
		case now.Sub(i.Since) >= behindLimit:
			behind = append(behind, i)
		}
	}
	if len(stand) > 0 {
		p := intakeProblem("Records have not been taken in", stand)
		p.Fault, p.Cause = r.whyIntakeStands()
		p.Effect = "They wait in Kafka, and are lost if that lasts longer than the retention of the topic. What is " +
			"stored comes out. docs/RUNBOOK.md, Intake stands."
		p.Unready = true
		all = append(all, p)
	}
	if len(behind) > 0 {
		p := intakeProblem("Records wait to be taken in", behind)
		p.Fault, p.Cause = admin.FaultNode, "more comes than nodes take in, or there was an outage; they get on"
		p.Effect = "What is in them is late. docs/RUNBOOK.md, Intake stands."
		all = append(all, p)
	}
	return all
}

// intakeProblem is about partitions, of which the longest wait counts.
func intakeProblem(says string, of []metrics.Intake) admin.Problem {
	names, records := make([]string, len(of)), int64(0)
	since := of[0].Since
	for n, i := range of {
		names[n] = fmt.Sprintf("%s/%d", i.Topic, i.Number)
		records += i.End - i.Position
		if i.Since.Before(since) {
			since = i.Since
		}
	}
	return admin.Problem{
		What: "intake", Since: since.UTC(), Says: fmt.Sprintf("%s: %d of %s", says, records, firstOf(names, 8)),
	}
}

// whyIntakeStands returns who is at fault when nothing is taken in, and why, as far as this node can tell.
func (r *Reporter) whyIntakeStands() (fault, why string) {
	for _, o := range r.failing(node.PortStore) {
		if slices.Contains([]string{"take", "positions", "catch_up"}, o.Call) {
			return admin.FaultStore, "the store: " + cause(o.Err)
		}
	}
	if failing := r.failing(node.PortSource); len(failing) > 0 {
		return admin.FaultKafka, named(admin.FaultKafka, cause(failing[0].Err))
	}
	if r.lateness.catchingUp {
		return admin.FaultStore, "the store was set back, and claims from before may still be held"
	}
	if locked := r.lateness.lockedAt; !locked.IsZero() && time.Since(locked) < causeLasts {
		return admin.FaultStore, "another session of the database has locked what the next record is about"
	}
	return admin.FaultUnknown, "this node knows no reason; its log may have one"
}

// reason is why messages of a lane are overdue.
type reason struct{ fault, why string }

// laneProblems says on which lanes messages are overdue, since the deadline of the first, and why. It is by the last
// look at the store: that a look has failed is no sign that anything has come out.
func (r *Reporter) laneProblems(now time.Time) (all []admin.Problem) {
	l := &r.lateness
	for i := range l.seen.Lanes {
		lane := &l.seen.Lanes[i]
		if _, paused := l.paused[lane.Name]; paused || lane.Oldest.IsZero() || now.Sub(lane.Oldest) < laneLimit {
			continue
		}
		reasons := l.reasons[lane.Name]
		p := admin.Problem{
			What: "lane", Lane: lane.Name, Fault: admin.FaultUnknown, Since: lane.Oldest.UTC(),
			Says: fmt.Sprintf("Lane %s has %s that should have come out, the first", lane.Name,
				messagesOf(lane.Overdue)),
			Effect: "They wait in the store, and are tried again. Other lanes are not held up. docs/RUNBOOK.md, " +
				"Messages are late.",
		}
		why := make([]string, len(reasons))
		for n, one := range reasons {
			why[n] = one.why
		}
		p.Cause = cmp.Or(strings.Join(why, "; "), "this node has not looked for the reason yet")
		if len(reasons) > 0 {
			p.Fault = reasons[0].fault
		}
		p.Unready = len(reasons) > 0 && p.Fault == admin.FaultUnknown
		all = append(all, p)
	}
	return all
}

// named gives a cause, which may begin with "it", the system that it is about.
func named(system, cause string) string {
	if rest, is := strings.CutPrefix(cause, "it "); is {
		return system + " " + rest
	}
	return cause
}
