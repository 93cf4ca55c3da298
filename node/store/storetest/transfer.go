package storetest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/inspect"
	"chronos/node/store/transfer"
)

func transferCases() []testCase {
	return []testCase{
		{"move/a sealed store claims nothing and takes nothing in", moveSealed},
		{"move/a sealed store begins no lineage", moveNoLineage},
		{"move/a seal stays", moveTwice},
		{"move/what is out is settled and given back", moveSettled},
		{"move/opened again when the claims have expired", moveUndone},
		{"move/a store that begins a lineage is not sealed", moveHolding},
		{"move/messages are read in order, claimed or not", moveRead},
		{"move/queues, tasks and actions are read in order", moveReadQueues},
		{"move/a store is filled, and opened at the end", moveFilled},
		{"move/what lies inside a closed queue waits", moveInside},
		{"move/a batch is received once", moveOnce},
		{"move/a mark is kept", moveMark},
		{"move/a store that was in use is not filled", moveUsed},
		{"move/an import keeps another one out", moveOther},
	}
}

// mover returns the side of the store that its contents are moved by, which every store has.
func (s *subject) mover() transfer.Store {
	s.Helper()
	mover, has := s.Store.(transfer.Store)
	if !has {
		s.Fatalf("%T cannot be moved", s.Store)
	}
	return mover
}

// export names exports.
func export(n byte) uuid.UUID { return uuid.UUID{0: 0xe0, 6: 0x40, 8: 0x80, 15: n} }

func (s *subject) seal() transfer.Seal {
	s.Helper()
	seal, err := s.mover().Seal(s.Context(), export(1), "somebody")
	if err != nil {
		s.Fatal(err)
	}
	return seal
}

func (s *subject) receive(batch transfer.Batch) transfer.Seal {
	s.Helper()
	seal, err := s.mover().Receive(s.Context(), batch)
	if err != nil {
		s.Fatal(err)
	}
	return seal
}

// refused ends the case unless an error says that nothing was done.
func (s *subject) refused(call string, err error) {
	s.Helper()
	if !transfer.IsRefused(err) {
		s.Fatalf("%s was not refused: %v", call, err)
	}
}

// stored returns all messages, in steps.
func (s *subject) stored(limit, bytes int) (all []transfer.Message) {
	s.Helper()
	return paged(s, limit, bytes, (*transfer.Message).Size, func(last *transfer.Message) ([]transfer.Message, error) {
		return s.mover().Messages(s.Context(), node.MessageID{ID: last.ID, Lane: last.Lane}, limit, bytes)
	})
}

// paged returns all rows of a kind. next returns those behind one, at most limit, up to the one with which their sizes
// reach bytes.
func paged[T any](s *subject, limit, bytes int, size func(*T) int, next func(last *T) ([]T, error)) (all []T) {
	s.Helper()
	for last := new(T); ; last = &all[len(all)-1] {
		page, err := next(last)
		if err != nil || len(page) > limit {
			s.Fatalf("%d rows, where %d are to be read: %v", len(page), limit, err)
		}
		if len(page) == 0 {
			return all
		}
		has := 0
		for i := range page {
			if has >= bytes {
				s.Fatalf("%d rows are read, of which %d have %d bytes, and %d are enough", len(page), i, has, bytes)
			}
			has += size(&page[i])
		}
		all = append(all, page...)
	}
}

func (s *subject) checkShut(what string) {
	s.Helper()
	state := s.state()
	if !state.CatchingUp || !state.Holding || state.Claims() || state.Takes() {
		s.Fatalf("%s: the state of a sealed store is %+v", what, state)
	}
	s.checkMessages(s.claim(alice(), latest()))
}

func moveSealed(s *subject) {
	a := s.message("a")
	s.insert(a)
	seal := s.seal()
	s.check("seal", seal, transfer.Seal{
		Kind: transfer.Exported, ID: export(1), By: "somebody", Since: seal.Since, Lineage: 2,
	})
	s.checkShut("sealed")
	request := s.request(alice(), submission{s.message("b"), true})
	s.check("take", s.take(request), node.TakeResult{
		State: s.state(), Positions: []node.Position{s.at.Position}, Refused: []bool{true},
		Taken: 1, Results: many(1, node.ItemResult{Outcome: node.Untaken}),
	})
	s.check("past Kafka", s.pastTake(instruction(node.Cancel, s.message("a"), nil)).Results,
		[]node.ItemResult{{Outcome: node.Untaken}})
	s.check("what is there", len(s.stored(10, 1<<20)), 1)
}

// moveNoLineage has a node come that believes the store was set back: on the new store its peers have committed offsets
// that lie beyond the positions of this one.
func moveNoLineage(s *subject) {
	place := s.place(1, 10)
	s.insert(s.message("a"))
	lineage := s.seal().Lineage
	for _, r := range []node.CatchUpRequest{
		{Lineage: lineage, Begin: true, Floor: 7},
		{Lineage: lineage, Begin: true, Marks: []node.Extent{extent(place, 99)}, Rewind: []node.Place{place}},
		{Lineage: lineage, Marks: []node.Extent{extent(place, 99)}},
	} {
		s.check("lineage", s.catchUp(r).Lineage, lineage)
		s.checkShut("after a look at the marks")
	}
	s.check("position", s.positions(place), []node.Position{place.Position})
}

func moveTwice(s *subject) {
	first := s.seal()
	second, err := s.mover().Seal(s.Context(), export(2), "somebody else")
	s.check("error", err, nil)
	s.check("second", second, first)
	now, err := s.mover().Sealed(s.Context())
	s.check("error", err, nil)
	s.check("seal", now, first)
}

func moveSettled(s *subject) {
	list := s.messages(2)
	claims := s.insertClaimed(alice(), list...)
	s.seal()
	held, err := s.mover().Held(s.Context())
	s.check("held", held, transfer.Held{}) // they have expired from the start
	s.check("error", err, nil)
	s.check("delete", s.delete(list[0].Ref()), []bool{true})
	s.check("expired", s.expired(), claims[1:])
	s.check("reset", s.reset(claims[1]), []bool{true})
	s.checkShut("given back")
	left := s.stored(10, 1<<20)
	s.check("left", len(left), 1)
	s.check("its attempts", left[0].Attempts, 1)
}

func moveUndone(s *subject) {
	a := s.message("a")
	s.insert(a)
	s.checkMessages(s.claimHolding(time.Hour), a)
	s.seal()
	held, err := s.mover().Held(s.Context())
	s.check("error", err, nil)
	if held.Claims != 1 || held.For < 50*time.Minute || held.For > time.Hour {
		s.Fatalf("what is held: %+v", held)
	}
	state, err := s.mover().Unseal(s.Context())
	s.check("error", err, nil)
	s.check("state", state, node.State{Lineage: 3, CatchingUp: true, Holding: true}) // until the claim has expired
	now, err := s.mover().Sealed(s.Context())
	s.check("error", err, nil)
	s.check("seal", now, transfer.Seal{})
	s.delete(a.Ref())
	s.check("begin", s.begin(), node.State{Lineage: 4}) // it is as any other store
	_, err = s.mover().Unseal(s.Context())
	s.refused("to open an open one", err)
}

// claimHolding claims everything for alice, for a time.
func (s *subject) claimHolding(hold time.Duration) []node.Ready {
	s.Helper()
	result, err := s.Store.Claim(s.Context(), node.ClaimRequest{
		Node: alice(), Hold: hold, Until: latest(), Lanes: s.unlimited(),
	})
	if err != nil {
		s.Fatal(err)
	}
	return result.Messages
}

// moveHolding seals a store that waits for claims that it has forgotten: who seals it could not know when they expire.
func moveHolding(s *subject) {
	s.catchUp(node.CatchUpRequest{Lineage: 1, Begin: true, Hold: time.Hour})
	_, err := s.mover().Seal(s.Context(), export(1), "somebody")
	s.refused("to seal it", err)
	s.check("state", s.state(), node.State{Lineage: 2, CatchingUp: true, Holding: true})
}

func moveRead(s *subject) {
	list := s.messages(5)
	list[4].Lane = output + "2"
	list[4].ID = list[3].ID
	s.insert(list[:3]...)
	s.insertClaimed(alice(), list[3:]...)
	s.seal()
	for _, limit := range []int{1, 2, 100} {
		for _, bytes := range []int{1, 1 << 20} {
			var got []node.Message
			for _, m := range s.stored(limit, bytes) {
				m.Origin = node.Origin{} // not every store keeps it
				got = append(got, m.Message)
			}
			s.check("messages", got, list)
		}
	}
}

// moveReadQueues fills a store with tasks of which some have something large to do, and reads all by pages.
func moveReadQueues(s *subject) {
	batch := transfer.Batch{ID: export(1), By: "somebody", Lineage: 6}
	for i := range byte(6) {
		q := queue.Queue{
			ID: export(20 - i), Name: fmt.Sprint("queue-", i), Kind: queue.Sync, Window: "never", TimeLimit: time.Hour,
		}
		a := queue.Action{ID: export(i), Topic: output, Payload: make([]byte, 10*int(i))}
		t := queue.Task{ID: export(i), Queue: q.ID, Execution: a.ID, Status: queue.Pending, Arrived: noon()}
		if i%2 == 1 {
			t.Execution, t.Inline = uuid.Nil, &queue.Action{Topic: output, Payload: a.Payload}
		}
		batch.Queues, batch.Actions = append(batch.Queues, q), append(batch.Actions, a)
		batch.Tasks = append(batch.Tasks, t)
	}
	batch.To = int64(len(batch.Queues) + len(batch.Actions) + len(batch.Tasks))
	s.receive(batch)
	content := func(a *queue.Action) int {
		encoded, err := a.Content()
		s.check("error", err, nil)
		return len(encoded)
	}
	inline := func(t *queue.Task) int {
		if t.Inline == nil {
			return 0
		}
		return content(t.Inline)
	}
	for _, limit := range []int{1, 2, 100} {
		nothing := func(*queue.Queue) int { return 0 }
		queues := paged(s, limit, 1, nothing, func(last *queue.Queue) ([]queue.Queue, error) {
			return s.mover().QueuesBehind(s.Context(), last.Name, limit)
		})
		s.check("queues", queues, append(batch.Queues[:6:6], queue.NewRoot()))
		for _, bytes := range []int{1, 200, 1 << 20} {
			tasks := paged(s, limit, bytes, inline, func(last *queue.Task) ([]queue.Task, error) {
				return s.mover().TasksBehind(s.Context(), last.ID, limit, bytes)
			})
			s.check("tasks", tasks, batch.Tasks)
			actions := paged(s, limit, bytes, content, func(last *queue.Action) ([]queue.Action, error) {
				return s.mover().ActionsBehind(s.Context(), last.ID, limit, bytes)
			})
			s.check("actions", actions, batch.Actions)
		}
	}
}

// moveInside fills a store with a queue that lies inside a closed one. What comes in it waits until that one opens.
func moveInside(s *subject) {
	outer := queue.Queue{
		ID: export(3), Name: "outer", Kind: queue.Sync, Window: "never", Paths: []string{"/apps"}, TimeLimit: time.Hour,
	}
	inner := outer
	inner.ID, inner.Name, inner.Window, inner.Paths = export(4), "inner", "always", []string{"/apps/mail"}
	action := queue.Action{ID: export(5), URI: "http://x", Method: "GET"}
	s.receive(transfer.Batch{
		ID: export(1), By: "somebody", Lineage: 6, To: 3, Last: true,
		Queues: []queue.Queue{inner, outer}, Actions: []queue.Action{action},
	})
	store, has := s.Store.(queue.Store)
	if !has {
		s.Fatalf("%T has no queues", s.Store)
	}
	do := func(command queue.Command) queue.Result {
		s.Helper()
		result, err := store.Apply(s.Context(), command)
		if err != nil {
			s.Fatalf("%T: %v", command, err)
		}
		return result
	}
	at, err := store.Queues(s.Context(), queue.Filter{Paths: []string{"/apps"}, Limit: 10})
	s.check("error", err, nil)
	s.check("what lies there", at, []queue.Queue{outer})
	arrived := do(queue.PutTask{Task: queue.Task{ID: export(6), Queue: inner.ID, Execution: action.ID}})
	s.check("inside a closed one", arrived.Task.Status, queue.Pending)
	outer.Window = "always"
	do(queue.PutQueue{Queue: outer})
	due, _, _, err := store.Due(s.Context(), 10)
	s.check("error", err, nil)
	s.check("what is looked after", due, []uuid.UUID{inner.ID})
	s.check("what starts", len(do(queue.Look{Queue: inner.ID}).Started), 1)
}

// filling is an import of two batches: a position with a mark below it, a pause, an answer, and three messages.
func (s *subject) filling() (first, last transfer.Batch, place node.Place) {
	place = node.Place{Partition: s.partition(), Position: node.Position{Epoch: 4, Offset: 70}}
	list := s.messages(3)
	moved := make([]transfer.Message, len(list))
	for i, m := range list {
		moved[i] = transfer.Message{Message: m, Due: m.Deadline.Add(time.Minute), Attempts: i, Behind: i == 1}
	}
	moved[0].NotAfter, moved[0].Bound = noon().Add(time.Hour), true
	moved[1].Line = uuid.UUID{0: 7, 15: 1}
	moved[2].Recurrence = node.Recurrence{Series: "every 1h", Sequence: 3, At: noon()}
	moved[2].Former, moved[2].Stopped = true, true
	first = transfer.Batch{
		ID: export(1), By: "somebody", Cluster: "cluster", Group: "group", Lineage: 6, To: 5,
		Places: []inspect.Place{{Place: place, Mark: -1}},
		Pauses: []node.Pause{{Lane: "paused", Since: noon(), By: "anna", Why: "a reason"}},
		Answers: []transfer.Answer{{Request: export(9), Expires: latest(), Told: node.Told{
			Outcome: node.Cancelled, Message: node.MessageID{ID: "x", Lane: output}, Print: export(8), Lineage: 5,
			Deadline: noon(),
		}}},
		Messages: moved[:2],
	}
	last = first
	last.From, last.To, last.Last = 5, 6, true
	last.Places, last.Pauses, last.Answers, last.Messages = nil, nil, nil, moved[2:]
	return first, last, place
}

func moveFilled(s *subject) {
	first, last, place := s.filling()
	seal := s.receive(first)
	s.check("seal", seal, transfer.Seal{
		Kind: transfer.Importing, ID: export(1), By: "somebody", Since: seal.Since, Lines: 5,
	})
	s.checkShut("half of it")
	s.check("lineage", s.begin().Lineage, int64(1))
	s.check("bound", s.bind(node.BindRequest{}), node.Bound{Cluster: "cluster", Group: "group", Partitions: 1})
	_, err := s.mover().Unseal(s.Context())
	s.refused("to open half of it", err)
	_, err = s.mover().Seal(s.Context(), export(2), "somebody")
	s.refused("to export half of it", err)

	seal = s.receive(last)
	s.check("seal", seal, transfer.Seal{
		Kind: transfer.Imported, ID: export(1), By: "somebody", Since: seal.Since, Lines: 6, Lineage: 7,
	})
	s.check("state", s.state(), node.State{Lineage: 7})
	s.check("position", s.positions(place), []node.Position{place.Position})
	s.check("messages", s.stored(10, 1<<20), append(first.Messages[:2:2], last.Messages...))
	contents, err := s.mover().Contents(s.Context())
	s.check("error", err, nil)
	s.check("contents", contents, transfer.Contents{
		Bound: node.Bound{Cluster: "cluster", Group: "group", Partitions: 1}, State: node.State{Lineage: 7}, Seal: seal,
		Messages: 3, Answers: 1, Places: first.Places, Pauses: first.Pauses,
	})
	answers, err := s.mover().Told(s.Context(), uuid.Nil, 10)
	s.check("error", err, nil)
	s.check("answers", answers, first.Answers)
	if got := s.claim(alice(), latest()); len(got) != 3 {
		s.Fatalf("%d messages can be claimed", len(got))
	}
}

// moveOnce has each batch come again, at once and after what it brought has fired.
func moveOnce(s *subject) {
	first, last, _ := s.filling()
	seal := s.receive(first)
	s.check("again", s.receive(first), seal)
	s.check("messages", len(s.stored(10, 1<<20)), 2)
	skipping := last
	skipping.From = 4
	s.check("what leaves a gap", s.receive(skipping), seal)
	seal = s.receive(last)
	for _, m := range append(first.Messages[:2:2], last.Messages...) {
		s.check("fired", s.delete(m.Ref()), []bool{true})
	}
	s.check("the first once more", s.receive(first), seal)
	s.check("the last once more", s.receive(last), seal)
	s.check("messages", len(s.stored(10, 1<<20)), 0)
}

func moveMark(s *subject) {
	_, batch, place := s.filling()
	batch.From, batch.To = 0, 1
	batch.Places = []inspect.Place{{Place: place, Mark: 75}}
	s.receive(batch)
	s.check("state", s.state(), node.State{Lineage: 7, CatchingUp: true})
	s.checkGate("taken in", s.takeTo(place, 4, 75), false)
}

func moveUsed(s *subject) {
	first, last, _ := s.filling()
	fill := func(what string, batch transfer.Batch) {
		s.Helper()
		_, err := s.mover().Receive(s.Context(), batch)
		s.refused("to fill one that "+what, err)
		s.check("seal", s.state().Holding, false)
	}
	fill("has not the beginning", last)
	s.bind(node.BindRequest{Cluster: "other", Group: "group"})
	fill("belongs to another", first)
	s.bind(node.BindRequest{Cluster: "cluster", Group: "group", Force: true})
	s.insert(s.message("a"))
	fill("has a message", first)
	s.delete(s.stored(1, 1)[0].Ref())
	fill("has taken something in", first)
}

func moveOther(s *subject) {
	first, last, _ := s.filling()
	seal := s.receive(first)
	other := first
	other.ID = export(2)
	_, err := s.mover().Receive(s.Context(), other)
	s.refused("another import", err)
	now, err := s.mover().Sealed(s.Context())
	s.check("error", err, nil)
	s.check("seal", now, seal)
	s.receive(last)
	_, err = s.mover().Receive(s.Context(), other)
	s.refused("another import, later", err)
}
