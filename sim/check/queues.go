package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a history says of a task.
const (
	// TaskPending, TaskRunning and TaskDeleted are statuses of a task, as KeepTask has them; TaskComplete and
	// TaskFailed those of one that is done, as Done and Told have them too.
	TaskPending  = "Pending"
	TaskRunning  = "Running"
	TaskDeleted  = "Deleted"
	TaskComplete = "Complete"
	TaskFailed   = "Failure"

	// Execution and Relief say what a receiver is asked for, in Call; a promise is "promise/" and its number.
	Execution = "execution"
	Relief    = "relief"

	// OnRequest is the Text of a Withdraw that somebody has asked for.
	OnRequest = "asked"
)

// looks is the time between two looks of a node at queues whose time has come, with its jitter.
const looks = 1100 * time.Millisecond

// tasks is what has become of queues and tasks by the events so far.
type tasks struct {
	queues map[UUID]*taskQueue
	order  []*taskQueue // those that there are, in the order in which they were told of
	tasks  map[UUID]*task
	all    []*task // in the order in which they were told of first
	runs   map[UUID]*run

	moved   time.Duration // when the store's clock was set last, or a lineage began: what rests on it counts from then
	ahead   time.Duration // how far that clock is ahead of the history
	unknown bool          // nobody has said so since it was set
}

// taskQueue is one queue.
type taskQueue struct {
	id             UUID
	sync, drain    bool
	deleting       bool
	paths          []string
	window         *Window // nil for always open
	lasts          time.Duration
	pending        []*task
	running        int
	floor          time.Duration // when it, or what lies in its paths, was changed last
	filled, vacant time.Duration // when it had a task to start again, and none that runs
}

// task is one task.
type task struct {
	id       UUID
	queue    *taskQueue
	priority int
	arrival  int64
	due      time.Duration // by the store's clock
	arrived  time.Duration
	status   string // "" of one that the store has forgotten
	run      UUID
	begun    time.Duration // by the store's clock, as its time limit is
	promises int           // how many actions its promise has
	accepted bool
	ended    bool // it was done, in some lineage
}

// run is one run of a task, in whichever lineages it was.
type run struct {
	of       *task
	status   string // what became of it; "" for nothing yet
	begun    time.Duration
	done     time.Duration
	inserted []int // which actions of its promise were stored, in this lineage
	ever     []int // and in any
	called   []string
}

func newTasks() tasks {
	return tasks{queues: map[UUID]*taskQueue{}, tasks: map[UUID]*task{}, runs: map[UUID]*run{}}
}

// open reports whether it is open by its own window.
func (q *taskQueue) open(stamp time.Duration) bool {
	return q.window == nil || q.window.into(stamp) < q.window.Open
}

// around returns a queue and those that contain it: at least one of its paths goes on behind one of theirs.
func (t *tasks) around(q *taskQueue) []*taskQueue {
	around := []*taskQueue{q}
	for _, other := range t.order {
		if other != q && other.contains(q) {
			around = append(around, other)
		}
	}
	return around
}

func (q *taskQueue) contains(other *taskQueue) bool {
	return slices.ContainsFunc(q.paths, func(path string) bool {
		return slices.ContainsFunc(other.paths, func(longer string) bool {
			return strings.HasPrefix(longer, path+"/")
		})
	})
}

// toldOfTasks takes over what an event says of queues and tasks.
func (s *state) toldOfTasks(e *Event) {
	t := &s.tasks
	t.reads(e)
	switch e.Kind {
	case PutQueue, KeepQueue:
		t.put(e)
	case DropQueue:
		if q := t.queues[e.Queue]; q != nil && !q.deleting {
			q.deleting, q.drain, q.floor = true, e.Drain, e.At
		}
	case QueueGone:
		t.gone(e)
	case Arrive, KeepTask:
		t.arrive(e)
	case Begin:
		t.begin(e)
	case Done:
		t.done(e)
	case Withdraw:
		if k := t.tasks[e.Task]; k != nil {
			k.leave(e.At)
			k.status = TaskDeleted
		}
	case Promise:
		if r := t.runs[e.Run]; r != nil {
			r.inserted, r.ever = append(r.inserted, e.Nth), append(r.ever, e.Nth)
		}
	case Call:
		if r := t.runs[e.Run]; r != nil && !slices.Contains(r.called, e.Text) {
			r.called = append(r.called, e.Text)
		}
	case Accept:
		if k := t.tasks[e.Task]; k != nil {
			k.accepted = true
		}
	default:
	}
}

// jumped takes note that the clock of the store was set. The event may say to what.
func (t *tasks) jumped(e *Event) {
	t.moved, t.unknown = e.At, true
	t.reads(e)
}

// reads takes note of what an event says of the clock of the store.
func (t *tasks) reads(e *Event) {
	if e.Stamp != 0 {
		t.ahead, t.unknown = e.Stamp-e.At, false
	}
}

// rollback forgets what a store forgets that is set back. What it keeps is told next.
func (t *tasks) rollback(at time.Duration) {
	clear(t.queues)
	t.order, t.moved, t.unknown = nil, at, true
	for _, k := range t.all {
		k.status, k.queue = "", nil
		if r := t.runs[k.run]; r != nil {
			r.status, r.inserted = "", nil
		}
	}
}

func (t *tasks) put(e *Event) {
	q := t.queues[e.Queue]
	if q == nil {
		q = &taskQueue{id: e.Queue, vacant: e.At}
		t.queues[e.Queue] = q
		t.order = append(t.order, q)
	}
	t.changed(q, e.At)
	q.sync, q.lasts, q.paths, q.window = e.Sync, e.Lasts, nil, nil
	if e.Kind == KeepQueue {
		q.deleting, q.drain = e.Deleting, e.Drain
	}
	if e.Paths != "" {
		q.paths = strings.Split(e.Paths, ",")
	}
	if len(e.Windows) > 0 {
		q.window = &e.Windows[0]
		w := *q.window // the event is not to be kept
		q.window = &w
	}
	t.changed(q, e.At)
}

// changed takes note that something may start from now on that could not before, in a queue and in what it contains.
func (t *tasks) changed(q *taskQueue, at time.Duration) {
	q.floor = at
	for _, other := range t.order {
		if q.contains(other) {
			other.floor = at
		}
	}
}

func (t *tasks) gone(e *Event) {
	q := t.queues[e.Queue]
	if q == nil {
		return
	}
	t.changed(q, e.At)
	delete(t.queues, e.Queue)
	t.order = slices.DeleteFunc(t.order, func(other *taskQueue) bool { return other == q })
}

func (t *tasks) arrive(e *Event) {
	k := t.tasks[e.Task]
	if k == nil {
		k = &task{id: e.Task}
		t.tasks[e.Task] = k
		t.all = append(t.all, k)
	}
	k.leave(e.At)
	k.queue, k.priority, k.arrival, k.due, k.promises = t.queues[e.Queue], e.Priority, e.Arrival, e.Due, e.Limit
	if k.due == 0 {
		k.due = -1 << 60 // at any time
	}
	k.arrived, k.status, k.run = e.At, TaskPending, UUID{}
	if e.Kind == KeepTask {
		k.status, k.run = e.Text, e.Run
	}
	q := k.queue
	switch {
	case k.status == TaskPending && q != nil:
		if q.pending = append(q.pending, k); len(q.pending) == 1 {
			q.filled = e.At
		}
	case k.status == TaskRunning:
		k.begun = e.At + t.ahead
		if q != nil {
			q.running++
		}
	case k.status == TaskComplete || k.status == TaskFailed:
		k.ended = true
	}
	if r := t.runOf(k); r != nil && k.ended && k.status != TaskRunning {
		r.status = k.status
	}
}

// runOf returns the run of a task, nil before it has one.
func (t *tasks) runOf(k *task) *run {
	if k.run == (UUID{}) {
		return nil
	}
	r := t.runs[k.run]
	if r == nil {
		r = &run{of: k}
		t.runs[k.run] = r
	}
	return r
}

// leave takes a task out of the counts of its queue.
func (k *task) leave(at time.Duration) {
	q := k.queue
	if q == nil {
		return
	}
	switch k.status {
	case TaskPending:
		q.pending = slices.DeleteFunc(q.pending, func(other *task) bool { return other == k })
	case TaskRunning:
		if q.running--; q.running == 0 {
			q.vacant = at
		}
	}
}

func (t *tasks) begin(e *Event) {
	k := t.tasks[e.Task]
	if k == nil {
		return
	}
	k.leave(e.At)
	k.status, k.run, k.begun = TaskRunning, e.Run, e.At+t.ahead
	if k.queue != nil {
		k.queue.running++
	}
	t.runOf(k).begun = e.At
}

func (t *tasks) done(e *Event) {
	k := t.tasks[e.Task]
	if k == nil {
		return
	}
	k.leave(e.At)
	k.status, k.ended = e.Text, true
	if r := t.runOf(k); r != nil {
		r.status, r.done = e.Text, e.At
	}
}

// about names a task in a finding.
func about(k *task) string { return "task " + k.id.String() }

// brokenTask is a finding about a task.
func brokenTask(e *Event, format string, arguments ...any) finding {
	return brokenBy(nil, "task %s: %s", e.Task, fmt.Sprintf(format, arguments...))
}

// s31 is the invariant S31, closed queues.
func s31(s *state, e *Event) finding {
	k := s.tasks.tasks[e.Task]
	if k == nil {
		return brokenTask(e, "it starts, and has never come")
	}
	if k.queue == nil {
		return brokenTask(e, "it starts, and its queue is gone")
	}
	for _, q := range s.tasks.around(k.queue) {
		if !q.open(e.Stamp) {
			return brokenTask(e, "it starts, and queue %s has been closed for %v by the clock of the store", q.id,
				q.window.into(e.Stamp)-q.window.Open)
		}
	}
	return holds()
}

// s32 is the invariant S32, one at a time.
func s32(s *state, e *Event) finding {
	k := s.tasks.tasks[e.Task]
	switch {
	case k == nil || k.queue == nil:
	case k.status != TaskPending:
		return brokenTask(e, "it starts, and is %s already", k.status)
	case k.queue.sync && k.queue.running > 0:
		return brokenTask(e, "it starts in queue %s, in which %d run", k.queue.id, k.queue.running)
	}
	return holds()
}

// s33 is the invariant S33, first by priority.
func s33(s *state, e *Event) finding {
	k := s.tasks.tasks[e.Task]
	if k == nil || k.queue == nil {
		return holds()
	}
	if !k.queue.sync {
		if e.Stamp < k.due {
			return brokenTask(e, "it starts %v before its time", k.due-e.Stamp)
		}
		return holds()
	}
	for _, other := range k.queue.pending {
		if other.priority > k.priority || other.priority == k.priority && other.arrival < k.arrival {
			return brokenTask(e, "it starts with priority %d as arrival %d before %s, which has priority %d and is "+
				"arrival %d", k.priority, k.arrival, about(other), other.priority, other.arrival)
		}
	}
	return holds()
}

// s34 is the invariant S34, promises.
func s34(s *state, e *Event) finding {
	k, r := s.tasks.tasks[e.Task], s.tasks.runs[e.Run]
	switch e.Kind {
	case Done:
		if k == nil || k.status != TaskRunning || k.run != e.Run {
			return brokenTask(e, "run %s is completed, and does not run", e.Run)
		}
	case Promise:
		switch {
		case r == nil || r.status == "":
			return brokenTask(e, "its promise is stored, and run %s is not completed", e.Run)
		case slices.Contains(r.inserted, e.Nth):
			return brokenTask(e, "action %d of its promise is stored twice", e.Nth)
		}
	case Call:
		return called(e, r)
	case Told:
		if r == nil || !r.of.ended || r.status != e.Text && s.setBack < 0 {
			return brokenTask(e, "somebody is told that run %s is %s", e.Run, e.Text)
		}
	default:
		return s.kept(e)
	}
	return holds()
}

// called finds a request that nothing has led to.
func called(e *Event, r *run) finding {
	number, promise := strings.CutPrefix(e.Text, "promise/")
	switch {
	case e.Text == Relief:
	case r == nil:
		return brokenTask(e, "a receiver is asked for its %s, and run %s has never started", e.Text, e.Run)
	case promise && !slices.ContainsFunc(r.ever, func(nth int) bool { return fmt.Sprint(nth) == number }):
		return brokenTask(e, "a receiver is asked for its %s, which was never stored for run %s", e.Text, e.Run)
	}
	return holds()
}

// kept finds, in the end, what was promised and has not come.
func (s *state) kept(e *Event) finding {
	for _, k := range s.tasks.all {
		r := s.tasks.runs[k.run]
		if r == nil || s.setBack >= 0 {
			continue
		}
		missing := func(part string) bool { return !slices.Contains(r.called, part) }
		// A message is due by the clock of the store, and comes out by that of a node.
		late := s.healed >= 0 && s.drainedAt(max(r.begun, r.done)+max(s.tasks.ahead, 0)+s.config.ClockError, e.At)
		if k.ended && len(r.inserted) < k.promises {
			return brokenBy(nil, "%s: it is done, and %d actions of its promise, of %d, were stored", about(k),
				len(r.inserted), k.promises)
		}
		if late && s.recorded[Call] && missing(Execution) {
			return brokenBy(nil, "%s: it has started, and nobody was asked to execute it", about(k))
		}
		for _, nth := range r.inserted {
			if part := fmt.Sprint("promise/", nth); late && s.recorded[Call] && missing(part) {
				return brokenBy(nil, "%s: nobody was asked for its %s", about(k), part)
			}
		}
	}
	return holds()
}

// calm returns since when everything about queues must have come in time; false if it need not have.
func (s *state) calm() (time.Duration, bool) {
	c := &s.config
	switch {
	case s.healed < 0:
		calm := s.faults+s.hangs+s.pauses+s.lineages == 0 && s.setBack < 0
		return max(c.Settle, s.tasks.moved), calm
	case s.catching:
		return 0, false
	case s.setBack >= 0 || s.begun >= 0:
		return max(s.healed, s.setBack, s.begun, s.caught, s.tasks.moved) + c.Restored(), true
	}
	return max(s.healed, s.tasks.moved) + 2*c.StoreTimeout + 2*c.Retry + c.StandBack, true
}

// look bounds the time until somebody has looked after a queue (L18, L19): one look in a second finds it, and looks
// after those before it, each by one call.
func (s *state) look() time.Duration {
	c := &s.config
	return looks + time.Duration(4+2*len(s.tasks.order))*c.StoreLatency + 2*c.ClockError
}

// startable returns since when a task could have been started, as far as its queue goes: when it, or one around it, was
// changed or has opened last; false if it is closed.
func (s *state) startable(q *taskQueue, at, stamp time.Duration) (since time.Duration, open bool) {
	for _, q := range s.tasks.around(q) {
		if !q.open(stamp) {
			return 0, false
		}
		since = max(since, q.floor)
		if q.window != nil {
			since = max(since, at-q.window.into(stamp))
		}
	}
	return since, true
}

// waits returns for how long a task waits that could have been started, as the first of its queue or at its time.
func (s *state) waits(k *task, at, stamp time.Duration) time.Duration {
	q := k.queue
	since, open := s.startable(q, at, stamp)
	if !open {
		return 0
	}
	if q.sync {
		if q.running > 0 {
			return 0
		}
		return at - max(since, q.vacant, q.filled)
	}
	return at - max(since, k.arrived, at-(stamp-k.due))
}

// l18 is the invariant L18, started.
func l18(s *state, e *Event) finding {
	k := s.tasks.tasks[e.Task]
	switch e.Kind {
	case Accept:
		if k == nil && s.setBack < 0 {
			return brokenTask(e, "somebody is told that it is accepted, and it is not stored")
		}
		return holds()
	case Withdraw:
		if k != nil && k.queue != nil && e.Text != OnRequest && (!k.queue.deleting || k.queue.drain) {
			return brokenTask(e, "it is deleted, and nobody has asked for that")
		}
		return holds()
	case QueueGone:
		if q := s.tasks.queues[e.Queue]; q != nil && len(q.pending)+q.running > 0 {
			return brokenBy(nil, "queue %s is gone, and %d tasks of it wait or run", e.Queue, len(q.pending)+q.running)
		}
		return holds()
	case Begin:
		floor, calm := s.calm()
		if k == nil || k.queue == nil || !calm {
			return holds()
		}
		if late := min(s.waits(k, e.At, e.Stamp), e.At-floor) - s.look(); late > 0 {
			return brokenTask(e, "it starts %v too late", late)
		}
		return holds()
	default:
		return s.stuck(e)
	}
}

// stuck finds what should have started by the end.
func (s *state) stuck(e *Event) finding {
	floor, calm := s.calm()
	for _, k := range s.tasks.all {
		switch {
		case k.status == "" && k.accepted && s.setBack < 0:
			return brokenBy(nil, "%s: it was accepted, and is gone", about(k))
		case k.status != TaskPending:
		case k.queue == nil:
			return brokenBy(nil, "%s: it waits in a queue that is gone", about(k))
		case !calm || s.tasks.unknown:
		default:
			if late := min(s.waits(k, e.At, e.At+s.tasks.ahead), e.At-floor) - s.look(); late > 0 {
				return brokenBy(nil, "%s: it has not started, %v too late", about(k), late)
			}
		}
	}
	return holds()
}

// l19 is the invariant L19, time limits. How long a task has run counts by the clock of the store, since the store goes
// by that:
//
//	node 1  starts a task that may run for 10 s, at 24 s
//	        the clock of the store is set back by 10 s
//	node 2  looks at 34 s: by that clock it has run for no time
//	node 3  looks at 44 s, and gives it up
func l19(s *state, e *Event) finding {
	floor, calm := s.calm()
	if !calm {
		return holds()
	}
	over := func(k *task, stamp time.Duration) time.Duration {
		if k.queue == nil || k.status != TaskRunning {
			return 0
		}
		begun := e.At - (stamp - k.begun)
		return e.At - max(begun+k.queue.lasts, k.queue.floor, floor) - s.look()
	}
	if e.Kind == Done {
		if k := s.tasks.tasks[e.Task]; k != nil && over(k, e.Stamp) > 0 {
			return brokenTask(e, "it is done %v after its time limit and what is allowed besides", over(k, e.Stamp))
		}
		return holds()
	}
	for _, k := range s.tasks.all {
		if late := over(k, e.At+s.tasks.ahead); late > 0 && !s.tasks.unknown {
			return brokenBy(nil, "%s: it still runs, %v after its time limit and what is allowed besides", about(k),
				late)
		}
	}
	return holds()
}
