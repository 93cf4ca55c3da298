package main_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// controlled is a service whose nodes tell outcomes and have a target.
type controlled struct {
	*service

	outcomes, target string
}

// newControlled makes one of two nodes, which create the topics that it has besides those of every service.
func newControlled(t *testing.T) *controlled {
	t.Helper()
	s := newService(t)
	c := &controlled{s, s.input + ".outcomes", s.input + ".target"}
	for range 2 {
		s.start(t, "--outcome-topic", c.outcomes, "--targets", c.target, "--create-topics", "--create-partitions", "4").
			log.await(t, `"msg":"started"`, 1)
	}
	return c
}

// step is a command, and what has to come of it.
type step struct {
	command string // words; TARGET is replaced
	code    int
	want    string // of the output, a regular expression
}

// TestE2ESeries runs series on real servers, one with a count and one that is cancelled, and kills a node between two
// occurrences: each comes, in order, with its number; none after the one that the outcome names; and, except what was
// being published when the node was killed, none twice.
func TestE2ESeries(t *testing.T) {
	t.Parallel()
	c := newControlled(t)
	killed := c.start(t, "--outcome-topic", c.outcomes, "--targets", c.target)
	killed.log.await(t, `"msg":"started"`, 1)
	series := func(id string, headers ...kgo.RecordHeader) *kgo.Record {
		r := c.record(id, time.Now().Add(time.Second), []byte(id))
		r.Key = []byte(id)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: node.HeaderRepeat, Value: []byte("every 1s")})
		r.Headers = append(r.Headers, headers...)
		return r
	}
	c.submit(t, series("counted", kgo.RecordHeader{Key: node.HeaderRepeatCount, Value: []byte("6")}), series("endless"))
	c.read(t, c.output, patience, func(all []arrived) bool { return len(all) >= 4 })
	killed.end(t, syscall.SIGKILL)
	c.read(t, c.output, patience, func(all []arrived) bool { return len(all) >= 8 })
	c.submit(t, &kgo.Record{Topic: c.input, Key: []byte("endless"), Headers: []kgo.RecordHeader{
		{Key: node.HeaderID, Value: []byte("endless")}, {Key: node.HeaderAction, Value: []byte("cancel")},
	}})
	told := c.read(t, c.outcomes, patience, func(all []arrived) bool { return len(all) >= 1 })[0].Record
	c.drained(t)
	last, err := strconv.Atoi(header(told, node.HeaderSequence))
	if header(told, node.HeaderOutcome) == "cancelled" {
		last-- // it names the first that does not come
	}
	if err != nil {
		t.Fatalf("the outcome has the headers %v", told.Headers)
	}
	next := map[string]int{"counted": 1, "endless": 1}
	twice := 0
	for _, r := range c.read(t, c.output, patience, func(all []arrived) bool { return len(all) >= 6+last }) {
		id := string(r.Value)
		switch sequence, _ := strconv.Atoi(header(r.Record, node.HeaderSequence)); {
		case sequence == next[id]:
			next[id]++
		case sequence < next[id]:
			twice++
		default:
			t.Errorf("occurrence %d of %s follows occurrence %d", sequence, id, next[id]-1)
		}
	}
	if next["counted"] != 7 || next["endless"] != last+1 || twice > 2 {
		t.Errorf("%d of 6 and %d of %d occurrences came, %d of them twice", next["counted"]-1, next["endless"]-1, last,
			twice)
	}
}

// take runs the commands, and returns when all have their outcomes.
func (c *controlled) take(t *testing.T, steps ...step) {
	t.Helper()
	for _, one := range steps {
		command := strings.ReplaceAll(one.command, "TARGET", c.target)
		args := append(strings.Fields(command),
			"--brokers", c.brokers, "--topic", c.input, "--outcome-topic", c.outcomes)
		got := run(t, "", args...)
		if got.code != one.code || got.stderr != "" || !regexp.MustCompile(`^`+one.want).MatchString(got.stdout) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %d, %q",
				command, got.code, got.stdout, got.stderr, one.code, one.want)
		}
	}
}

// values returns the values of the first n records of a topic, once there are so many.
func (c *controlled) values(t *testing.T, topic string, n int) map[string]int {
	t.Helper()
	values := map[string]int{}
	for _, r := range c.read(t, topic, patience, func(all []arrived) bool { return len(all) >= n }) {
		values[string(r.Value)]++
	}
	return values
}

// TestE2EControl changes messages in each way that there is, on real servers with two nodes, and looks what comes out
// where. The pause keeps what was fired, or expires, from being gone before the next command.
func TestE2EControl(t *testing.T) {
	t.Parallel()
	c := newControlled(t)
	c.take(t,
		step{"send --in 1h --id cancelled --key k --confirm no", 0, `scheduled `},
		step{"cancel cancelled --key k", 0, `cancelled  cancelled  it does not come out; it was due at `},
		step{"cancel cancelled --key k", 4, `not_found  cancelled  `},
		step{"reschedule cancelled --key k --in 1s", 4, `not_found  `},
		step{"fire cancelled --key k", 4, `not_found  `},
		step{"send --in 1h --id moved --key k --confirm moved", 0, `scheduled `},
		step{"send --in 1s --id moved --key k --confirm no", 1, `ignored `},
		step{"reschedule moved --key k --delay 1s", 0, `rescheduled  moved  it comes out at .*, and no longer at `},
		step{"send --in 1h --id new --key k --confirm no", 0, `scheduled `},
		step{"replace new --key k --in 1s replaced", 0, `replaced `},
		step{"replace first --key k --delay PT1S first", 0, `scheduled  first  there was nothing to replace`},
		step{"send --delay 1h --id far --key k --topic-out TARGET --confirm target", 0, `scheduled `},
		step{"cancel far --key k", 4, `not_found `}, // it is another message on the output topic
		step{"fire far --key k --topic-out TARGET", 0, `fired `},
		step{"cancel moved --topic-out elsewhere --key k", 1, `rejected  moved  unknown_topic: `},
		step{"send --in 1h --id bad --topic-out elsewhere --confirm bad", 1, `rejected  bad  unknown_topic: `},
	)
	if got := c.values(t, c.output, 3); len(got) != 3 || got["moved"]+got["replaced"]+got["first"] != 3 {
		t.Errorf("the output topic has %v", got)
	}
	if got := c.values(t, c.target, 1); got["target"] != 1 {
		t.Errorf("the target has %v", got)
	}
	c.pausing(t, "pause")
	c.take(t,
		step{"send --in 1h --id fired --key k --confirm fired", 0, `scheduled `},
		step{"fire fired --key k", 0, `fired  fired  it comes out now; it was due at `},
		step{"cancel fired --key k", 3, `too_late  fired  it comes out as it is`},
		step{"reschedule fired --key k --in 1h", 3, `too_late `},
		step{"fire fired --key k", 3, `too_late `},
	)
	last := time.Now().Add(10 * time.Second) // longer than it takes to send one
	c.take(t,
		step{
			"send --in 100ms --id late --key k --confirm --not-after " + last.UTC().Format(time.RFC3339Nano) + " late",
			0, `scheduled `,
		},
	)
	<-time.After(time.Until(last)) // it has to pass: then the message must not appear any more
	c.pausing(t, "resume")
	if got := c.values(t, c.output, 4); len(got) != 4 || got["fired"] != 1 {
		t.Errorf("the output topic has %v", got)
	}
	dead := map[string]string{}
	for _, r := range c.read(t, c.dead, patience, func(all []arrived) bool { return len(all) >= 3 }) {
		dead[header(r.Record, node.HeaderID)] = header(r.Record, node.HeaderReason)
	}
	const elsewhere = "unknown_topic"
	if len(dead) != 3 || dead["late"] != "expired" || dead["moved"] != elsewhere || dead["bad"] != elsewhere {
		t.Errorf("the dead-letter topic has %v", dead)
	}
	c.drained(t)
}

// header returns a header of a record; "" if there is none.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// Goal: outcomes are true. Method: messages whose deadlines lie from a second ago to five seconds ahead are sent,
// and each is cancelled at once: some are fired by then, some claimed, and some wait. What was told must be what came
// out: nothing that was cancelled, and all the rest, each once.
func TestE2ECancelRaces(t *testing.T) {
	c := newControlled(t)
	const n = 300
	var submissions, cancels []*kgo.Record
	now := time.Now()
	for i := range n {
		id := fmt.Sprint(i)
		submissions = append(submissions, c.record(id, now.Add(time.Duration(i-n/5)*20*time.Millisecond), []byte(id)))
		cancels = append(cancels, &kgo.Record{Topic: c.input, Key: []byte(id), Headers: []kgo.RecordHeader{
			{Key: node.HeaderID, Value: []byte(id)}, {Key: node.HeaderAction, Value: []byte("cancel")},
		}})
	}
	c.submit(t, submissions...)
	c.read(t, c.output, patience, distinct(1)) // or all are cancelled before anything was read
	c.submit(t, cancels...)
	told := map[string]string{}
	for _, r := range c.read(t, c.outcomes, patience, distinct(n)) {
		id, outcome := header(r.Record, node.HeaderID), header(r.Record, node.HeaderOutcome)
		if before, again := told[id]; again && before != outcome {
			t.Errorf("%s was %s, and then %s", id, before, outcome)
		}
		told[id] = outcome
	}
	c.drained(t)
	counts := map[string]int{}
	for _, outcome := range told {
		counts[outcome]++
	}
	t.Logf("outcomes: %v", counts)
	gone := counts["too_late"] + counts["not_found"]
	if counts["cancelled"] == 0 || gone == 0 || counts["cancelled"]+gone != n {
		t.Errorf("the outcomes are %v: nothing raced", counts)
	}
	out := c.values(t, c.output, gone)
	for id, outcome := range told {
		if came := out[id]; (outcome == "cancelled") != (came == 0) || came > 1 {
			t.Errorf("%s was %s, and came out %d times", id, outcome, came)
		}
	}
}
