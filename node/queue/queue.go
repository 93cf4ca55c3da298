package queue

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Kind says how the tasks of a queue follow each other.
type Kind string

// The kinds.
const (
	// Async runs each task at its time, or when the queue opens next.
	Async Kind = "async"

	// Sync runs one task at a time, the one of the highest priority first, then by arrival. The next one starts when
	// somebody has completed the one before, or its time limit is over.
	Sync Kind = "sync"
)

// Root is the id of the queue called root, which is always there: async, always open, and not to be changed. A task
// that names no queue is in it.
var Root = uuid.MustParse("11111111-1111-1111-1111-111111111111") //nolint:gochecknoglobals // a constant

const (
	// RootName is the name of Root.
	RootName = "root"

	// Lane is the callback lane that actions with a URI are requested on.
	Lane = node.TasksLane

	// DefaultTimeLimit is how long a task may run that nobody completes, where its queue does not say otherwise.
	DefaultTimeLimit = 24 * time.Hour

	// MaxRunning is how many tasks of an async queue run at the same time. It bounds what still comes out after the
	// queue has closed.
	MaxRunning = 1000
)

// Queue is a queue: what somebody has set, and what has become of it.
type Queue struct {
	ID   uuid.UUID
	Name string // by which people and records name it: no other queue has the same

	Kind   Kind
	Window string   // the normal form, see calendar.ParseWindow
	Paths  []string // where it lies, such as /apps/mail: a queue at a true prefix of one of them contains it
	Tags   []string

	// Drain says what becomes of what waits when the queue is deleted: it is run first, or it is deleted with it.
	Drain bool

	// TimeLimit is how long a task may run before it fails, and the queue goes on.
	TimeLimit time.Duration

	// Depth is how many tasks may wait while the queue is open before Relief, an action, is called; 0 for no bound.
	Depth  int
	Relief uuid.UUID

	State
}

// State is what has become of a queue. Only Run changes it.
type State struct {
	Deleting bool
	Arrivals int64 // how many tasks have ever come: the arrival number of the last one
	Pending  int   // how many tasks wait
	Running  int   // how many run

	// Relieved is when Relief was last called for a depth that has not gone down since; zero for not.
	Relieved time.Time

	// Look is when somebody has to look after the queue; zero for not before the next command.
	Look time.Time
}

// Status is what has become of a task, in horae's words.
type Status string

// The statuses.
const (
	Pending         Status = "Pending"
	Running         Status = "Running"
	Complete        Status = "Complete"
	Failure         Status = "Failure"
	PartiallyFailed Status = "Partially Failed" // some of its promise was done, and some was given up
	Deleted         Status = "Deleted"
)

// Done reports whether nothing happens to the task any more, except that it is forgotten after a while.
func (s Status) Done() bool { return s != Pending && s != Running }

// Task is one task.
type Task struct {
	ID       uuid.UUID
	Queue    uuid.UUID
	Name     string
	Tags     []string
	Priority int       // the higher the sooner, in sync queues
	When     time.Time // not before this instant, in async queues

	Execution uuid.UUID   // the action to run; zero if it is Inline
	Promise   []uuid.UUID // actions to run when it is completed

	// Inline is an action of the task's own, in place of Execution: what is to come out is a record that somebody has
	// brought. Its tags stay as they are. Its ID, Name and Tags do not matter.
	Inline *Action

	Arrival int64 // its place among all tasks of the queue
	Status  Status
	Reason  string // why it failed, in a sentence; empty otherwise

	// Run names the one time that it has run, zero before: what a completion is about.
	Run uuid.UUID

	Arrived, Started, Ended time.Time // zero for not yet

	// Fates says what became of each action of its promise, in their order: FateOpen, FateDone or FateBroken. A request
	// may be made twice, so what is counted must know which action it was.
	Fates string
}

// The letters of Task.Fates.
const (
	FateOpen   = '.'
	FateDone   = 'd'
	FateBroken = 'b' // given up
)

// Promised returns how many actions of its promise were done.
func (t *Task) Promised() int { return strings.Count(t.Fates, string(FateDone)) }

// Broken returns how many actions of its promise were given up.
func (t *Task) Broken() int { return strings.Count(t.Fates, string(FateBroken)) }

// Action is something to do: an HTTP request, or a record on a topic. Its URI, headers and payload may have the tags
// <<HORAE_API_URI>>, <<HORAE_COMPLETION_URI>>, <<HORAE_TASK_UUID>> and <<HORAE_TASK_STATUS>>, or CHRONOS_ in place of
// HORAE_, see Expand.
type Action struct {
	ID      uuid.UUID
	Name    string
	Tags    []string
	URI     string // of a request
	Method  string // GET, POST, HEAD, PUT or DELETE
	Topic   string // of a record, in place of URI and Method
	Headers []node.Header
	Key     []byte // of a record
	Payload []byte
}
