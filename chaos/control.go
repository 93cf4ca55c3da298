package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// controlScenarios are about instructions: cancel, reschedule, replace and fire, while things go wrong. They are judged
// by what an outsider sees: each instruction has one outcome, and what it says is true.
func controlScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name:         "instructed-killed-nodes",
			About:        "Nodes are killed; a tenth of the records are instructions. What outcomes say is true.",
			Instructions: 10, Outside: true,
			draw: func(n *nemesis) {
				at := 3 * s
				for _, i := range n.random.Perm(3) {
					n.killNode(at, n.between(1*s, 6*s), n.cluster.nodes[i])
					at += n.between(3*s, 4*s)
				}
			},
			demands: []demand{trueOutcomes},
		},
		{
			Name:         "instructed-killed-postgres",
			About:        "Postgres is killed; a tenth of the records are instructions. What outcomes say is true.",
			Instructions: 10, Outside: true, Servers: true,
			draw: func(n *nemesis) {
				n.takeAway(3*s, n.between(1*s, 3*s), thePostgres, byKill, n.database)
				n.takeAway(9*s, n.between(1*s, 3*s), thePostgres, byStop, n.database)
			},
			demands: []demand{trueOutcomes},
		},
	}
}

// The actions that are drawn, and the headers of an instruction and of its outcome.
const (
	actionHeader    = "chronosAction"
	outcomeHeader   = "chronosOutcome"
	formerHeader    = "chronosFormer"
	partitionHeader = "chronosSourcePartition"
	offsetHeader    = "chronosSourceOffset"
)

// instruction is a record that asks for something about the message of another one, its target. Each target has one
// instruction, so that its outcome decides on what becomes of the target.
type instruction struct {
	number int
	action string
	target submission
	at     time.Time // when it is to be sent
	due    time.Time // of reschedule and replace

	// place is where Kafka has put it; "" while that is not acknowledged.
	place string
}

// outcome is what was told of an instruction.
type outcome struct {
	text   string
	former bool
}

// instruct submits a message that an instruction is going to be about, and plans the instruction: at any time from now
// to shortly after the message falls due. They have the same key, and so keep their order.
func (c *submitter) instruct(ctx context.Context) {
	delay := 500*time.Millisecond + time.Duration(c.random.IntN(4000))*time.Millisecond
	now := time.Now()
	i := &instruction{
		number: c.number(), action: []string{"cancel", "reschedule", "replace", "fire"}[c.random.IntN(4)],
		at: now.Add(time.Duration(c.random.Int64N(int64(delay + 300*time.Millisecond)))),
	}
	number := c.number()
	i.target = submission{
		number: number, id: fmt.Sprintf("i-%d", number), deadline: now.Add(delay).UTC().Truncate(time.Millisecond),
		decided: true,
	}
	i.due = i.target.deadline.Add(time.Duration(c.random.IntN(3000)-500) * time.Millisecond)
	at, _ := slices.BinarySearchFunc(c.planned, i, func(a, b *instruction) int { return a.at.Compare(b.at) })
	c.planned = slices.Insert(c.planned, at, i)
	t := i.target
	if i.action == "fire" || i.action == "reschedule" {
		t.deadline = now.UTC().Truncate(time.Millisecond) // it may come out earlier than it says
	}
	c.send(ctx, t, record(c.topics.routes[0].in, &i.target, i.target.deadline), nil)
}

// instructions sends the instructions that are due.
func (c *submitter) instructions(ctx context.Context) {
	for len(c.planned) > 0 && !time.Now().Before(c.planned[0].at) {
		i := c.planned[0]
		c.planned = c.planned[1:]
		s := submission{number: i.number, id: i.target.id, deadline: i.due, decided: true}
		r := record(c.topics.routes[0].in, &s, i.due)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: actionHeader, Value: []byte(i.action)})
		c.send(ctx, s, r, func(r *kgo.Record) {
			i.place = placeOf(r.Partition, r.Offset)
			c.instructed = append(c.instructed, i)
		})
	}
}

// record returns the record of a submission whose message is the same each time.
func record(topic string, s *submission, due time.Time) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Key: []byte(s.id), Value: []byte("number " + strconv.Itoa(s.number)),
		Headers: []kgo.RecordHeader{
			{Key: numberHeader, Value: []byte(strconv.Itoa(s.number))},
			{Key: idHeader, Value: []byte(s.id)},
			{Key: deadlineHeader, Value: []byte(due.UTC().Format("2006-01-02T15:04:05.000Z"))},
		},
	}
}

func placeOf(partition int32, offset int64) string { return fmt.Sprintf("%d/%d", partition, offset) }

// tell takes a record of the outcome topic.
func (h *history) tell(r *kgo.Record) {
	values := map[string]string{}
	for _, one := range r.Headers {
		values[one.Key] = string(one.Value)
	}
	place := values[partitionHeader] + "/" + values[offsetHeader]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told[place] = append(h.told[place], outcome{values[outcomeHeader], values[formerHeader] != ""})
}

// untold returns how many instructions were acknowledged, and nobody has told of their outcome.
func (c *submitter) untold() (untold int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	for _, i := range c.instructed {
		if len(c.history.told[i.place]) == 0 {
			untold++
		}
	}
	return untold
}

// trueOutcomes demands that each instruction has one outcome, however often it is told, and that what it says is what
// has become of the target. Each outcome has to occur, but too_late, which takes a cancel within a claim.
func trueOutcomes(r *run, _ *Result) string {
	fires := r.fires()
	counts := map[string]int{}
	for _, i := range r.submitter.instructed {
		told := r.history.told[i.place]
		if len(told) == 0 {
			return fmt.Sprintf("nobody has told of the outcome of %s %s (record %s)", i.action, i.target.id, i.place)
		}
		for _, other := range told {
			if other != told[0] {
				return fmt.Sprintf("%s %s has two outcomes: %v and %v", i.action, i.target.id, told[0], other)
			}
		}
		counts[told[0].text]++
		due := i.due.Sub(r.history.since)
		if wrong := told[0].untrue(fires[i.target.number], fires[i.number], i.action, due); wrong != "" {
			return fmt.Sprintf("%s %s (submissions %d and %d) was answered %s, and %s", i.action, i.target.id,
				i.number, i.target.number, told[0].text, wrong)
		}
	}
	return r.eachSeen(counts)
}

// untrue says what is not as the outcome says, given when target and replacement have come out.
func (o outcome) untrue(target, replacement []time.Duration, action string, due time.Duration) string {
	const clockError = 2 * time.Millisecond
	switch {
	case o.text == "cancelled" && len(target) > 0:
		return "it came out"
	case slices.Contains([]string{"too_late", "fired", "not_found", "rescheduled"}, o.text) && len(target) == 0:
		return "it did not come out"
	case o.text == "rescheduled" && target[0] < due-clockError:
		return fmt.Sprintf("it came out %v before its new deadline", due-target[0])
	case o.text == "replaced" && !o.former && len(target) > 0:
		return "the former content came out, and nothing was said of it"
	case (o.text == "replaced" || action == "replace" && o.text == "scheduled") && len(replacement) == 0:
		return "the new content did not come out"
	case !slices.Contains([]string{
		"cancelled", "too_late", "fired", "not_found", "rescheduled", "replaced", "scheduled",
	}, o.text):
		return "that is no outcome"
	}
	return ""
}
