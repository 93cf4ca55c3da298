package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"

	"chronos/node/queue"
	"chronos/sim/check"
)

// promisePart begins what a message says that is of a promise, before the number of its action.
const promisePart = "promise/"

// always and never are windows in words, as are those that dayWindow makes.
const (
	always = "always"
	never  = "never"
)

// dayWindow is a window in words that is open once a day, from one minute of the day to another.
func dayWindow(from, to int) string {
	const day = 24 * 60
	from, to = (from+day)%day, (to+day)%day
	return fmt.Sprintf("%02d:%02d to %02d:%02d every day in UTC", from/60, from%60, to/60, to%60)
}

// judgedWindow returns what the judge is told of a window in words; false for none. It goes by the clock of the store.
func judgedWindow(words string) (check.Window, bool) {
	const day = 24 * time.Hour
	w := check.Window{Topic: "queue", Period: day}
	var h1, m1, h2, m2 int
	switch words {
	case always, "":
		return w, false
	case never:
		w.Open, w.Phase = time.Nanosecond, -day/2
		return w, true
	}
	if _, err := fmt.Sscanf(words, "%d:%d to %d:%d every day in UTC", &h1, &m1, &h2, &m2); err != nil {
		panic("sim: nobody can judge the window " + words)
	}
	w.Phase = time.Duration(h1*60+m1) * time.Minute
	w.Open = (time.Duration(h2*60+m2)*time.Minute - w.Phase + day) % day
	return w, true
}

// Windows in words change on the minute, and worlds last for a minute or two. So the clock of the store begins in the
// minute before midnight, and midnight comes while faults last. It is behind those of the nodes: a message that a
// transaction inserts is due by the clock of the store, and comes out when it is due by that of a node.
const (
	firstMinute = -1
	lastMinute  = 4
	latestStart = -5 * time.Second
)

// drawStoreSkew draws the error of the store's clock at the start.
func drawStoreSkew(r *rand.Rand) time.Duration {
	return -between(r, -latestStart, time.Minute).Round(time.Millisecond)
}

// queueID, taskID and actionID are ids in the worlds.
func queueID(n int) uuid.UUID  { return idOf('q', n) }
func taskID(n int) uuid.UUID   { return idOf('t', n) }
func actionID(n int) uuid.UUID { return idOf('a', n) }

func idOf(what byte, n int) uuid.UUID {
	id := uuid.UUID{0: what, 6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// asks is something that a client asks of the store at some time.
type asks struct {
	at      time.Duration
	command queue.Command
}

const (
	// queueActions is how many actions there are, each of which may be executed or promised. The last is for relief.
	queueActions = 4

	// mostPromised is how many actions a promise has, at most.
	mostPromised = 2
)

// queueWork draws what clients ask of queues: queues that lie inside one another, tasks, and changes. Each has a stream
// of its own.
func (o *Options) queueWork() []asks {
	if o.Queues == 0 {
		return nil
	}
	var work []asks
	for n := range queueActions {
		work = append(work, asks{0, queue.PutAction{Action: queue.Action{
			ID: actionID(n), Name: "a" + strconv.Itoa(n), Method: "POST",
			URI: "http://receiver.example/" + strconv.Itoa(n),
		}}})
	}
	for n := range o.Queues {
		r := stream(o.Seed, forQueues, n+1, 0)
		q := o.drawQueue(r, n)
		work = append(work, asks{between(r, 100*time.Millisecond, time.Second), queue.PutQueue{Queue: q}})
		for range r.IntN(4) {
			work = append(work, o.drawChange(r, &q))
		}
		if oneIn(r, 4) {
			work = append(work, asks{between(r, o.Faulty/4, o.Faulty), queue.DropQueue{ID: q.ID}})
		}
	}
	for n := range o.Tasks {
		r := stream(o.Seed, forQueues, -n-1, 0)
		t := o.drawTask(r, n)
		at := between(r, 200*time.Millisecond, o.Faulty)
		work = append(work, asks{at, queue.PutTask{Task: t}})
		switch r.IntN(12) {
		case 0:
			work = append(work, asks{at + between(r, 0, 5*time.Second), queue.DropTask{ID: t.ID}})
		case 1:
			t.Priority += r.IntN(3) - 1
			work = append(work, asks{at + between(r, 0, 2*time.Second), queue.PutTask{Task: t}})
		}
	}
	return work
}

func (o *Options) drawQueue(r *rand.Rand, n int) queue.Queue {
	q := queue.Queue{
		ID: queueID(n), Name: "q" + strconv.Itoa(n), Kind: pick(r, queue.Sync, queue.Sync, queue.Async),
		Window: drawWindow(r), Drain: oneIn(r, 2),
		TimeLimit: pick(r, time.Second, 2*time.Second, 5*time.Second, 10*time.Second),
		Paths:     []string{pick(r, "/a", "/a/b", "/a/b", "/a/b/c", "/c", "/ab")},
	}
	if oneIn(r, 3) {
		q.Paths = append(q.Paths, pick(r, "/c/d", "/c/d/e"))
	}
	if oneIn(r, 3) {
		q.Depth, q.Relief = 1+r.IntN(5), actionID(queueActions-1)
	}
	return q
}

func drawWindow(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return never
	case 1, 2, 3:
		from := firstMinute + r.IntN(lastMinute-firstMinute-1)
		return dayWindow(from, from+1+r.IntN(lastMinute-from))
	}
	return always
}

// drawChange draws another window, another time limit, or another place for a queue.
func (o *Options) drawChange(r *rand.Rand, q *queue.Queue) asks {
	switch r.IntN(6) {
	case 0:
		q.TimeLimit = pick(r, time.Second, 3*time.Second, 10*time.Second)
	case 1:
		q.Paths = []string{pick(r, "/a", "/a/b", "/a/b/c", "/c/d")}
	default:
		q.Window = drawWindow(r)
	}
	return asks{between(r, time.Second, o.Faulty), queue.PutQueue{Queue: *q}}
}

func (o *Options) drawTask(r *rand.Rand, n int) queue.Task {
	t := queue.Task{
		ID: taskID(n), Queue: queueID(r.IntN(o.Queues)), Name: "t" + strconv.Itoa(n), Priority: r.IntN(3),
		Execution: actionID(r.IntN(queueActions - 1)),
	}
	if oneIn(r, 8) {
		t.Queue = queue.Root
	}
	if oneIn(r, 2) {
		t.When = epoch().Add(o.StoreSkew + between(r, 0, o.Faulty)).Truncate(time.Microsecond)
	}
	for range r.IntN(mostPromised + 1) {
		t.Promise = append(t.Promise, actionID(r.IntN(queueActions-1)))
	}
	return t
}

// reopened returns a queue as somebody opens it when the world has healed, so that everything comes to an end.
func reopened(q queue.Queue) queue.Queue {
	q.Window, q.State = always, queue.State{}
	return q
}
