package desk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/queue/desk"
	"chronos/node/store/memory"
)

// the ids that the tests use.
const (
	someAction = "aaaaaaaa-0000-4000-8000-000000000001"
	someTask   = "bbbbbbbb-0000-4000-8000-000000000001"
)

// newDesk returns a desk over a store that has a closed queue "a", an action, and a task of it in that queue.
func newDesk(t *testing.T) *desk.Desk {
	t.Helper()
	clock := func() time.Time { return time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC) }
	d := &desk.Desk{Store: memory.New(clock), Now: clock}
	kind, window, uri, name, execution := "sync", "never", "http://x/", "a", someAction
	if _, _, err := d.PutQueue(t.Context(), name, desk.QueueChange{Kind: &kind, Window: &window}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.PutAction(t.Context(), uuid.MustParse(someAction), desk.ActionChange{URI: &uri}); err != nil {
		t.Fatal(err)
	}
	_, _, err := d.PutTask(t.Context(), uuid.MustParse(someTask), desk.TaskChange{Queue: &name, Execution: &execution})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// refused reports whether an error is a refusal of that code.
func refused(err error, code queue.Code) bool {
	refusal, is := errors.AsType[*queue.Refusal](err)
	return is && refusal.Code == code
}

// Goal: an empty name, and the UUID of zeros, name nothing. To a filter they are no condition, so that without care the
// first queue, task or action that there is would be shown, changed or deleted.
func TestNothingIsNamed(t *testing.T) {
	d := newDesk(t)
	for _, ref := range []string{"", uuid.Nil.String()} {
		if q, err := d.FindQueue(t.Context(), ref); !desk.IsAbsent(err) {
			t.Errorf("queue %q: %+v, %v", ref, q, err)
		}
		if q, err := d.DropQueue(t.Context(), ref, nil); !desk.IsAbsent(err) {
			t.Errorf("queue %q deleted: %+v, %v", ref, q, err)
		}
		window := "always"
		if q, _, err := d.PutQueue(t.Context(), ref, desk.QueueChange{Window: &window}); !refused(err, queue.Invalid) {
			t.Errorf("queue %q changed: %+v, %v", ref, q, err)
		}
		execution := someAction
		_, _, err := d.PutTask(t.Context(), uuid.New(), desk.TaskChange{Queue: &ref, Execution: &execution})
		if !desk.IsAbsent(err) {
			t.Errorf("task in queue %q: %v", ref, err)
		}
	}
	if task, err := d.FindTask(t.Context(), uuid.Nil); !desk.IsAbsent(err) {
		t.Errorf("task: %+v, %v", task, err)
	}
	priority, name := 1, "other"
	if task, _, err := d.PutTask(t.Context(), uuid.Nil, desk.TaskChange{Priority: &priority}); err == nil {
		t.Errorf("task changed: %+v", task)
	}
	if a, err := d.FindAction(t.Context(), uuid.Nil); !desk.IsAbsent(err) {
		t.Errorf("action: %+v, %v", a, err)
	}
	if a, _, err := d.PutAction(t.Context(), uuid.Nil, desk.ActionChange{Name: &name}); err == nil {
		t.Errorf("action changed: %+v", a)
	}
}

// forgetful is a store whose first answers are lost: what was asked for is done.
type forgetful struct {
	queue.Store

	lost int
	then func() // what happens meanwhile; nil for nothing
}

func (f *forgetful) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	result, err := f.Store.Apply(ctx, command)
	if f.lost > 0 {
		f.lost--
		if f.then != nil {
			f.then()
		}
		return queue.Result{}, errors.New("the connection is gone")
	}
	return result, err
}

// Goal: what is deleted is deleted, where only the answer of the store was lost and the command was given once more;
// and a queue that is gone has nothing in it.
func TestDeletedThoughUnanswered(t *testing.T) {
	d := newDesk(t)
	lossy := &forgetful{Store: d.Store, lost: 1}
	d.Store = lossy
	q, err := d.DropQueue(t.Context(), "a", nil)
	if err != nil || q.Name != "a" || !q.Deleting || q.Pending != 0 || q.Arrivals != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	lossy.lost = 1
	if err := d.DropAction(t.Context(), uuid.MustParse(someAction)); err != nil {
		t.Error(err)
	}
	if err := d.DropAction(t.Context(), uuid.MustParse(someAction)); !desk.IsAbsent(err) {
		t.Errorf("once more: %v", err)
	}
}

// Goal: that the store takes nothing in is no answer to a command that it may have carried out before.
func TestClosedMeanwhile(t *testing.T) {
	d := newDesk(t)
	store, is := d.Store.(*memory.Store)
	if !is {
		t.Fatalf("the store is a %T", d.Store)
	}
	d.Store = &forgetful{Store: store, lost: 1, then: func() {
		if _, err := store.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
			t.Error(err)
		}
	}}
	if task, err := d.DropTask(t.Context(), uuid.MustParse(someTask)); err == nil || refused(err, queue.Closed) {
		t.Errorf("an answer is lost, and then the intake is paused: %+v, %v", task, err)
	}
	if task, err := d.FindTask(t.Context(), uuid.MustParse(someTask)); err != nil || task.Status != queue.Deleted {
		t.Errorf("%+v, %v", task, err)
	}
	if _, err := d.DropQueue(t.Context(), "a", nil); !refused(err, queue.Closed) {
		t.Errorf("the intake was paused before: %v", err)
	}
}

// Goal: whoever wants a queue that is being deleted to go in another way is told that it does not.
func TestDeletedInOneWay(t *testing.T) {
	d := newDesk(t)
	yes, no := true, false
	if q, err := d.DropQueue(t.Context(), "a", &yes); err != nil || !q.Deleting || q.Pending != 1 {
		t.Fatalf("%+v, %v", q, err)
	}
	if q, err := d.DropQueue(t.Context(), "a", &yes); err != nil || !q.Deleting {
		t.Errorf("once more: %+v, %v", q, err)
	}
	if q, err := d.DropQueue(t.Context(), "a", &no); !refused(err, queue.Conflict) {
		t.Errorf("in the other way: %+v, %v", q, err)
	}
}

// Goal: a tag that stands for an address is refused where nobody knows one, and payloads are shown to those who may see
// them.
func TestActionsAsTheyAreShown(t *testing.T) {
	d := newDesk(t)
	for _, tag := range []string{"<<HORAE_COMPLETION_URI>>", "<<CHRONOS_API_URI>>"} {
		_, _, err := d.PutAction(t.Context(), uuid.New(), desk.ActionChange{URI: &tag})
		if !refused(err, queue.Invalid) {
			t.Errorf("%s: %v", tag, err)
		}
	}
	a := queue.Action{ID: uuid.New(), URI: "http://x/", Payload: []byte("secret")}
	if desk.ShowAction(&a, false).Payload != nil || desk.ShowAction(&a, true).Payload == nil {
		t.Error("the payload is shown to all, or to nobody")
	}
}

// hasty is a store in which somebody else comes just before a command.
type hasty struct {
	queue.Store

	first func()
}

func (h *hasty) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	if first := h.first; first != nil {
		h.first = nil
		first()
	}
	return h.Store.Apply(ctx, command)
}

// Goal: of two who make a queue of one name at the same time, the second changes what the first has made.
func TestTwoMakeAQueue(t *testing.T) {
	d := newDesk(t)
	store, kind, window, tags := d.Store, "sync", "never", []string{"mine"}
	d.Store = &hasty{Store: store, first: func() {
		other := &desk.Desk{Store: store}
		if _, _, err := other.PutQueue(t.Context(), "b", desk.QueueChange{Kind: &kind, Window: &window}); err != nil {
			t.Error(err)
		}
	}}
	q, isNew, err := d.PutQueue(t.Context(), "b", desk.QueueChange{Kind: &kind, Tags: &tags})
	if err != nil || isNew || q.Window != "never" || len(q.Tags) != 1 {
		t.Errorf("%+v, %v, %v", q, isNew, err)
	}
}

// Goal: of two who change the same thing at the same time, each changes what they have said, and nothing else.
func TestTwoChangeTheSame(t *testing.T) {
	d := newDesk(t)
	store, never, tags, high := d.Store, "never", []string{"mine"}, 7
	task, action, yes := uuid.MustParse(someTask), uuid.MustParse(someAction), true
	other := &desk.Desk{Store: store}
	before := func(first func() error) {
		d.Store = &hasty{Store: store, first: func() {
			if err := first(); err != nil {
				t.Error(err)
			}
		}}
	}
	before(func() error {
		_, _, err := other.PutQueue(t.Context(), "a", desk.QueueChange{Window: &never})
		return err
	})
	if q, _, err := d.PutQueue(t.Context(), "a", desk.QueueChange{Tags: &tags}); err != nil || q.Window != never ||
		len(q.Tags) != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	before(func() error {
		_, _, err := other.PutTask(t.Context(), task, desk.TaskChange{Priority: &high})
		return err
	})
	if k, _, err := d.PutTask(t.Context(), task, desk.TaskChange{Tags: &tags}); err != nil || k.Priority != high ||
		len(k.Tags) != 1 {
		t.Errorf("%+v, %v", k, err)
	}
	before(func() error {
		_, _, err := other.PutAction(t.Context(), action, desk.ActionChange{Name: &never})
		return err
	})
	if a, _, err := d.PutAction(t.Context(), action, desk.ActionChange{Tags: &tags}); err != nil || a.Name != never ||
		len(a.Tags) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	before(func() error {
		_, _, err := other.PutQueue(t.Context(), "a", desk.QueueChange{Depth: &high})
		return err
	})
	if q, err := d.DropQueue(t.Context(), "a", &yes); err != nil || !q.Deleting || !q.Drain || q.Depth != high {
		t.Errorf("%+v, %v", q, err)
	}
}
