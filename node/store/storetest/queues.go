package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/memory"
)

// QueueInstance is a store of queues under test.
type QueueInstance struct {
	Store queue.Store

	// Peer is another store on the same rows, as a second node has it; nil where there can be none.
	Peer queue.Store

	// Clock is the clock that the store was given; nil if it has its own.
	Clock *Clock

	// Switches pauses the intake; Messages returns the names of all messages, in their order.
	Switches node.Switches
	Messages func(t testing.TB) []string
}

// RunQueues runs the part of the suite that is about queues: that a store carries commands out as the memory model
// does, that it lists what there is, and that of callers that race each transition has one winner. What the rules are
// is the business of package queue, whose tests they are; what is tested here is the few reads and writes under them.
func RunQueues(t *testing.T, open func(t *testing.T) QueueInstance) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(s *queues)
	}{
		{"random commands", queuesRandom},
		{"what lies inside is touched", queuesTouched},
		{"what is due comes in its order", queuesDue},
		{"the limits of an async queue", queuesLimits},
		{"lists are filtered, and go on", queuesLists},
		{"bytes come out as they came", queuesBytes},
		{"a refusal changes nothing", queuesRefusal},
		{"an error undoes all", queuesUndo},
		{"while nothing is taken in", queuesClosed},
		{"what ended is forgotten, the oldest first", queuesForget},
		{"two completions at once", queuesRaceEnd},
		{"a completion and the time limit", queuesRaceLimit},
		{"two queues of one name", queuesRaceName},
		{"two tasks of one id", queuesRaceTask},
		{"starts that race", queuesRaceStart},
		{"a parent closes while tasks start", queuesRaceParent},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &queues{T: t, QueueInstance: open(t)}
			s.model = memory.New(s.now)
			c.run(s)
		})
	}
}

// queues is a store of queues under test, and the model.
type queues struct {
	*testing.T
	QueueInstance

	model *memory.Store
	drawn int
}

func (s *queues) now() time.Time {
	if s.Clock != nil {
		return s.Clock.Now()
	}
	return time.Now()
}

func (s *queues) id() uuid.UUID {
	s.drawn++
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, s.drawn))
}

// do carries a command out, which must not fail.
func (s *queues) do(command queue.Command) queue.Result {
	s.Helper()
	result, err := s.Store.Apply(s.Context(), command)
	if err != nil {
		s.Fatalf("%#v: %v", command, err)
	}
	return result
}

func (s *queues) action() uuid.UUID {
	s.Helper()
	id := s.id()
	s.do(queue.PutAction{Action: queue.Action{ID: id, URI: "http://x", Method: "GET"}})
	return id
}

func (s *queues) queue(change func(q *queue.Queue)) queue.Queue {
	s.Helper()
	id := s.id()
	q := queue.Queue{ID: id, Name: id.String(), Kind: queue.Sync}
	if change != nil {
		change(&q)
	}
	return *s.do(queue.PutQueue{Queue: q}).Queue
}

func (s *queues) task(q, action uuid.UUID) uuid.UUID {
	s.Helper()
	id := s.id()
	s.do(queue.PutTask{Task: queue.Task{ID: id, Queue: q, Execution: action}})
	return id
}

// all returns all that there is.
func (s *queues) all(store queue.Store) ([]queue.Queue, []queue.Task, []queue.Action) {
	s.Helper()
	filter := queue.Filter{Limit: 10_000}
	queues, err := store.Queues(s.Context(), filter)
	tasks, err2 := store.Tasks(s.Context(), filter)
	actions, err3 := store.Actions(s.Context(), filter)
	if err := errors.Join(err, err2, err3); err != nil {
		s.Fatal(err)
	}
	return queues, tasks, actions
}

func (s *queues) find(id uuid.UUID) queue.Task {
	s.Helper()
	tasks, err := s.Store.Tasks(s.Context(), queue.Filter{ID: id, Limit: 1})
	if err != nil || len(tasks) != 1 {
		s.Fatalf("task %v: %v, error %v", id, tasks, err)
	}
	return tasks[0]
}

// plain takes out of rows what two stores with clocks of their own cannot have in common.
func (s *queues) plain(queues []queue.Queue, tasks []queue.Task) {
	if s.Clock != nil {
		return
	}
	same := func(at *time.Time) {
		if !at.IsZero() {
			*at = time.Unix(1, 0).UTC()
		}
	}
	for i := range queues {
		same(&queues[i].Look)
		same(&queues[i].Relieved)
	}
	for i := range tasks {
		t := &tasks[i]
		same(&t.Arrived)
		same(&t.Started)
		same(&t.Ended)
		if t.Run != uuid.Nil {
			t.Run = uuid.Max
		}
	}
}

// equal fails the test if store and model do not have the same.
func (s *queues) equal(after string) {
	s.Helper()
	queues, tasks, actions := s.all(s.Store)
	wantQueues, wantTasks, wantActions := s.all(s.model)
	s.plain(queues, tasks)
	s.plain(wantQueues, wantTasks)
	same(s, after, wantQueues, queues)
	same(s, after, wantTasks, tasks)
	same(s, after, wantActions, actions)
	var want []string
	for _, row := range s.model.Dump() {
		want = append(want, s.name(row.ID)+" "+row.Lane)
	}
	var got []string
	for _, name := range s.Messages(s) {
		got = append(got, s.name(name))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		s.Fatalf("after %s the messages are\n%q, of the model\n%q", after, got, want)
	}
}

// same fails the test at the first row in which two lists differ.
func same[T any](s *queues, after string, want, got []T) {
	s.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || !reflect.DeepEqual(want[i], got[i]) {
			s.Fatalf("after %s there are %d rows, of the model %d; from row %d on\n%+v\nof the model\n%+v", after,
				len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}

// name returns the name of a message without its run, which is different in each store that has its own clock.
func (s *queues) name(id string) string {
	parts := strings.Split(id, "/")
	if s.Clock == nil && len(parts) > 1 {
		parts[1] = "run"
	}
	return strings.Join(parts, "/")
}

// both carries a command out in the store and in the model.
func (s *queues) both(command queue.Command) {
	s.Helper()
	got, err := s.Store.Apply(s.Context(), command)
	want, wantErr := s.model.Apply(s.Context(), command)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		s.Fatalf("%#v: %v, of the model: %v", command, err, wantErr)
	}
	if got.Changed != want.Changed || len(got.Started) != len(want.Started) || got.Forgotten != want.Forgotten {
		s.Fatalf("%#v: %+v, of the model: %+v", command, got, want)
	}
	s.equal(fmt.Sprintf("%#v", command))
}

// Random commands do in the store what they do in the model.
func queuesRandom(s *queues) {
	drawn := rand.New(rand.NewPCG(1, 2))
	var queues, actions, tasks []uuid.UUID
	for i := range 4 {
		queues, actions = append(queues, s.id()), append(actions, s.id())
		s.both(queue.PutAction{Action: queue.Action{ID: actions[i], Topic: "done"}})
	}
	for range 25 {
		tasks = append(tasks, s.id())
	}
	one := func(of []uuid.UUID) uuid.UUID { return of[drawn.IntN(len(of))] }
	paths := []string{"/a", "/a/b", "/a/b/c", "/ab", "/c"}
	kinds := []queue.Kind{queue.Sync, queue.Async}
	for range 200 {
		switch n := drawn.IntN(100); {
		case n < 15:
			id := one(queues)
			s.both(queue.PutQueue{Queue: queue.Queue{
				ID: id, Name: "q" + id.String()[drawn.IntN(2):], Kind: kinds[slices.Index(queues, id)%2],
				Window: []string{"always", "always", "never"}[drawn.IntN(3)], Drain: drawn.IntN(2) == 0,
				Paths: []string{paths[drawn.IntN(5)], paths[drawn.IntN(5)]}, Depth: drawn.IntN(3), Relief: actions[3],
			}})
		case n < 18:
			s.both(queue.DropQueue{ID: one(queues)})
		case n < 22:
			s.both(queue.PutAction{Action: queue.Action{
				ID: one(actions), URI: "http://x/" + fmt.Sprint(n), Method: "GET", Tags: []string{"t"},
			}})
		case n < 24:
			s.both(queue.DropAction{ID: one(actions)})
		case n < 60:
			t := queue.Task{
				ID: one(tasks), Queue: one(append(queues, queue.Root)), Priority: drawn.IntN(3),
				Execution: one(actions),
				When:      []time.Time{{}, time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)}[drawn.IntN(4)/3],
			}
			if drawn.IntN(3) == 0 {
				t.Promise = []uuid.UUID{one(actions), one(actions)}
			}
			s.both(queue.PutTask{Task: t})
		case n < 65:
			s.both(queue.DropTask{ID: one(tasks)})
		case n < 85:
			s.both(queue.End{Task: one(tasks), Failed: drawn.IntN(3) == 0, Reason: "so", Delivered: drawn.IntN(3) == 0})
		case n < 92:
			s.both(queue.Look{Queue: one(queues)})
		default:
			s.bothLook()
		}
	}
}

// bothLook looks after all that is due, in both.
func (s *queues) bothLook() {
	s.Helper()
	due, _, _, err := s.model.Due(s.Context(), 100)
	if err != nil {
		s.Fatal(err)
	}
	for _, id := range due {
		s.both(queue.Look{Queue: id})
	}
}

// A change of a queue has those looked at that lie inside it, by whole segments of a path, and in which something
// waits.
func queuesTouched(s *queues) {
	action := s.action()
	at := func(paths ...string) queue.Queue {
		return s.queue(func(q *queue.Queue) { q.Paths = paths })
	}
	outer := at("/a", "/x")
	inside, deep, beside, empty := at("/a/b"), at("/other", "/x/y/z"), at("/ab"), at("/a/e")
	for _, q := range []queue.Queue{inside, deep, beside} {
		s.task(q.ID, action)
		s.task(q.ID, action)
	}
	before := map[uuid.UUID]time.Time{}
	list, _, _ := s.all(s.Store)
	for i := range list {
		before[list[i].ID] = list[i].Look
	}
	outer.Window = "never"
	s.do(queue.PutQueue{Queue: outer})
	due, _, _, err := s.Store.Due(s.Context(), 10)
	if err != nil {
		s.Fatal(err)
	}
	want := []uuid.UUID{inside.ID, deep.ID}
	for _, id := range due {
		s.do(queue.Look{Queue: id})
	}
	sorted := func(ids []uuid.UUID) []uuid.UUID {
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
		return ids
	}
	if !slices.Equal(sorted(due), sorted(want)) {
		s.Errorf("%v are due, want %v: not %v, nor %v", due, want, beside.ID, empty.ID)
	}
	// What lies inside finds it closed, and what lies beside it does not.
	for _, c := range []struct {
		in     uuid.UUID
		starts bool
	}{{inside.ID, false}, {deep.ID, false}, {empty.ID, false}, {beside.ID, true}} {
		id := s.id()
		if c.starts {
			_, tasks, _ := s.all(s.Store)
			for i := range tasks {
				if tasks[i].Queue == c.in && tasks[i].Status == queue.Running {
					s.do(queue.End{Task: tasks[i].ID})
				}
			}
		}
		s.do(queue.PutTask{Task: queue.Task{ID: id, Queue: c.in, Execution: action, Priority: 9}})
		if got := s.find(id).Status == queue.Running; got && !c.starts {
			s.Errorf("a task of a queue that is closed has started: %v", c.in)
		}
	}
}

// What is due comes with what has waited longest first, and says when the next one is.
func queuesDue(s *queues) {
	action := s.action()
	var made []uuid.UUID
	for i := range 3 {
		q := s.queue(func(q *queue.Queue) { q.TimeLimit = time.Duration(3-i) * time.Hour })
		s.task(q.ID, action)
		made = append(made, q.ID)
	}
	if due, next, some, err := s.Store.Due(s.Context(), 10); err != nil || len(due) != 0 || !some ||
		next > time.Hour || next < time.Hour-time.Minute {
		s.Errorf("%v are due, the next one in %v (%v), error %v", due, next, some, err)
	}
	if s.Clock == nil {
		return
	}
	s.Clock.Advance(2*time.Hour + time.Minute)
	due, next, some, err := s.Store.Due(s.Context(), 1)
	if err != nil || !slices.Equal(due, made[2:]) || !some || next != 0 {
		s.Errorf("%v are due, the next one in %v (%v), error %v", due, next, some, err)
	}
	due, next, some, err = s.Store.Due(s.Context(), 10)
	if err != nil || !slices.Equal(due, []uuid.UUID{made[2], made[1]}) || !some || next != 59*time.Minute {
		s.Errorf("%v are due, the next one in %v (%v), error %v", due, next, some, err)
	}
	for _, id := range due {
		if got := s.do(queue.Look{Queue: id}); got.Queue.Running != 0 {
			s.Errorf("a task that is overdue still runs: %+v", got.Queue)
		}
	}
}

// An async queue starts what is due, the earliest first, and has a time limit for each.
func queuesLimits(s *queues) {
	action := s.action()
	q := s.queue(func(q *queue.Queue) { q.Kind, q.Window = queue.Async, "never" })
	for i := range 250 {
		s.do(queue.PutTask{Task: queue.Task{
			ID: s.id(), Queue: q.ID, Execution: action, When: time.Unix(int64(1000-i), 0),
		}})
	}
	q.Window = "always"
	started := s.do(queue.PutQueue{Queue: q}).Started
	for len(started) < 250 {
		more := s.do(queue.Look{Queue: q.ID}).Started
		if len(more) == 0 {
			break
		}
		started = append(started, more...)
	}
	byWhen := func(a, b queue.Task) int { return a.When.Compare(b.When) }
	if len(started) != 250 || !slices.IsSortedFunc(started, byWhen) {
		s.Errorf("%d tasks have started, not in the order of their times", len(started))
	}
}

// Nothing of an action is lost or changed, be it of a task or of its own.
func queuesBytes(s *queues) {
	actions := []queue.Action{
		{Topic: "t", Key: []byte{}, Payload: nil, Headers: []node.Header{{Name: "\xff", Value: nil}}},
		{Topic: "t", Key: nil, Payload: []byte{0, 0xff}, Headers: []node.Header{
			{Name: "a", Value: []byte{}}, {Name: "a", Value: []byte{0, 1, 0xfe}},
		}},
		{URI: "http://x", Method: "PUT", Payload: []byte(strings.Repeat("x", 1<<20))},
	}
	for i := range actions {
		a := &actions[i]
		a.ID, a.Name, a.Tags = s.id(), "näme", []string{"b", "a"}
		s.do(queue.PutAction{Action: *a})
		found, err := s.Store.Actions(s.Context(), queue.Filter{ID: a.ID, Limit: 1})
		if err != nil || len(found) != 1 {
			s.Fatalf("%v, error %v", found, err)
		}
		if !reflect.DeepEqual(*a, found[0]) {
			s.Errorf("an action is %+.200v, want %+.200v", found[0], *a)
		}
		t := queue.Task{ID: s.id(), Inline: a, When: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)}
		s.do(queue.PutTask{Task: t})
		want := *a
		want.ID, want.Name, want.Tags = uuid.Nil, "", nil
		got := s.find(t.ID)
		if !reflect.DeepEqual(&want, got.Inline) || !got.When.Equal(t.When) {
			s.Errorf("a task at %v is %+.200v, want %+.200v", got.When, got.Inline, want)
		}
		if s.do(queue.PutTask{Task: t}).Changed {
			s.Error("a repeat has changed the task")
		}
	}
}

// What is refused is as it was.
func queuesRefusal(s *queues) {
	action := s.action()
	q := s.queue(nil)
	running := s.task(q.ID, action)
	before := fmt.Sprint(s.all(s.Store))
	for _, command := range []queue.Command{
		queue.DropTask{ID: running},
		queue.DropAction{ID: action},
		queue.DropQueue{ID: queue.Root},
		queue.PutQueue{Queue: queue.Queue{ID: s.id(), Name: q.Name, Kind: queue.Sync}},
		queue.PutTask{Task: queue.Task{ID: s.id(), Queue: s.id(), Execution: action}},
	} {
		_, err := s.Store.Apply(s.Context(), command)
		if _, refused := errors.AsType[*queue.Refusal](err); !refused {
			s.Errorf("%#v: %v", command, err)
		}
	}
	if after := fmt.Sprint(s.all(s.Store)); after != before {
		s.Errorf("%s\nbecame\n%s", before, after)
	}
}

// What was written before an error is not there.
func queuesUndo(s *queues) {
	action := s.action()
	q := s.queue(nil)
	s.model = memory.New(s.now) // not compared
	before, messages := fmt.Sprint(s.all(s.Store)), s.Messages(s)
	spoilt := errors.New("spoilt")
	_, err := s.Store.Transact(s.Context(), func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		t := queue.Task{ID: s.id(), Queue: q.ID, Execution: action}
		if _, err := queue.Run(ctx, tx, queue.PutTask{Task: t}); err != nil {
			return queue.Result{}, err
		}
		if _, err := queue.Run(ctx, tx, queue.DropQueue{ID: q.ID}); err != nil {
			return queue.Result{}, err
		}
		if got, err := tx.Task(ctx, t.ID); err != nil || got == nil || got.Status != queue.Running {
			return queue.Result{}, fmt.Errorf("the transaction does not see what it has done: %v, %w", got, err)
		}
		return queue.Result{}, spoilt
	})
	if !errors.Is(err, spoilt) {
		s.Errorf("the error is %v", err)
	}
	if after := fmt.Sprint(s.all(s.Store)); after != before || !slices.Equal(messages, s.Messages(s)) {
		s.Errorf("%s\nbecame\n%s", before, after)
	}
	times := 0
	if _, err := s.Store.Transact(s.Context(), func(context.Context, queue.Tx) (queue.Result, error) {
		if times++; times < 3 {
			return queue.Result{}, queue.ErrAgain
		}
		return queue.Result{}, nil
	}); err != nil || times != 3 {
		s.Errorf("it was done %d times, error %v", times, err)
	}
}

// While nothing is taken in, no command is carried out.
func queuesClosed(s *queues) {
	action := s.action()
	q := s.queue(nil)
	task := s.task(q.ID, action)
	if _, err := s.Switches.Pause(s.Context(), node.Pause{Lane: node.Intake}); err != nil {
		s.Fatal(err)
	}
	for _, command := range []queue.Command{
		queue.End{Task: task}, queue.Look{Queue: q.ID}, queue.DropQueue{ID: q.ID}, queue.Forget{Limit: 1},
	} {
		_, err := s.Store.Apply(s.Context(), command)
		if refusal, is := errors.AsType[*queue.Refusal](err); !is || refusal.Code != queue.Closed {
			s.Errorf("%#v: %v", command, err)
		}
	}
	if s.find(task).Status != queue.Running {
		s.Error("the task has ended")
	}
	if _, err := s.Switches.Resume(s.Context(), node.Intake); err != nil {
		s.Fatal(err)
	}
	s.do(queue.End{Task: task})
}

// Only what is done is forgotten, the oldest first, as much as was asked for.
func queuesForget(s *queues) {
	action := s.action()
	q := s.queue(nil)
	var made []uuid.UUID
	for range 5 {
		made = append(made, s.task(q.ID, action))
	}
	for _, id := range made[:3] {
		s.do(queue.End{Task: id})
		if s.Clock != nil {
			s.Clock.Advance(time.Second)
		}
	}
	if got := s.do(queue.Forget{Age: time.Hour, Limit: 10}); got.Forgotten != 0 || got.Changed {
		s.Errorf("%+v", got)
	}
	if got := s.do(queue.Forget{Age: -time.Hour, Limit: 2}); got.Forgotten != 2 || !got.Changed {
		s.Errorf("%+v", got)
	}
	s.find(made[2])
	if got := s.do(queue.Forget{Age: -time.Hour, Limit: 10}); got.Forgotten != 1 {
		s.Errorf("%+v", got)
	}
	s.find(made[3])
	s.find(made[4])
}
