package journal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// group is a node.Source whose polls return what it is told, and otherwise wait until they are ended. What it is told
// comes first: a poll that is ended already would leave it to the next one, at random.
type group struct {
	node.Source

	batches chan node.Batch
	left    bool
}

func (g *group) Poll(ctx context.Context) (node.Batch, error) {
	select {
	case b := <-g.batches:
		return b, nil
	default:
	}
	select {
	case b := <-g.batches:
		return b, nil
	case <-ctx.Done():
		return node.Batch{}, nil
	}
}

func (g *group) Leave(context.Context) error {
	g.left = true
	return nil
}

// session is that of the group.
const session = 10 * time.Second

// sourced is a source over a group, and what was said of attempts to own the partition.
type sourced struct {
	*world

	group    *group
	source   *journal.Source
	attempts []error
}

func newSourced(t *testing.T) *sourced {
	t.Helper()
	s := &sourced{world: newWorld(t), group: &group{batches: make(chan node.Batch, 1)}}
	s.source = journal.NewSource(s.group, s.stores[0], uuid.New(), session, func(_ int32, err error) {
		s.attempts = append(s.attempts, err)
	})
	t.Cleanup(s.source.Close)
	return s
}

// poll polls once, after the group has something to say.
func (s *sourced) poll(b node.Batch) node.Batch {
	s.Helper()
	select {
	case s.group.batches <- b:
	default:
		s.Fatal("what the group said last was not taken")
	}
	b, err := s.source.Poll(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// until polls until the node is told of an assignment, and expects that it is told of nothing else.
func (s *sourced) until() {
	s.Helper()
	for range 100 {
		b, err := s.source.Poll(s.Context())
		if err != nil || len(b.Revoked)+len(b.Records) > 0 {
			s.Fatalf("the node is told %+v, %v", b, err)
		}
		if len(b.Assigned) == 1 && b.Assigned[0].Partition == input() {
			return
		}
	}
	s.Fatal("the partition is never assigned")
}

// assignment is what the group says of the partition.
func assignment() node.Batch {
	return node.Batch{Assigned: []node.Assignment{{Extent: node.Extent{Partition: input()}}}}
}

// position asks the store for the position of the partition, as the engine does when it is assigned.
func (s *sourced) position() error {
	_, _, err := s.stores[0].Positions(s.Context(), []node.Place{{Partition: input()}})
	return err
}

// The node hears of a partition when it is owned, and of none that is taken away before that.
func TestSourceOwns(t *testing.T) {
	t.Parallel()
	s := newSourced(t)
	if s.position() == nil {
		t.Fatal("it is owned before the group has assigned it")
	}
	if b := s.poll(assignment()); len(b.Assigned) != 0 {
		t.Fatalf("the node is told %+v before anything is owned", b)
	}
	s.until()
	if err := s.position(); err != nil {
		t.Fatal(err)
	}
	if b := s.poll(node.Batch{Records: []node.Record{{Offset: 7}}}); len(b.Records) != 1 {
		t.Fatalf("of one record came %+v", b)
	}
	b := s.poll(node.Batch{Revoked: []node.Partition{input()}, Records: []node.Record{{Offset: 8}}})
	if len(b.Revoked) != 1 || len(b.Records) != 0 || s.position() == nil {
		t.Fatalf("the node is told %+v, and still owns the partition", b)
	}
	s.poll(assignment())
	s.poll(node.Batch{Revoked: []node.Partition{input()}}) // while it is being owned
	if b := s.poll(node.Batch{}); len(b.Assigned) != 0 || s.position() == nil {
		t.Fatalf("the node is told %+v of what is not its own", b)
	}
	s.poll(assignment())
	s.until()
	if err := s.source.Leave(t.Context()); err != nil || !s.group.left || s.position() == nil {
		t.Fatalf("leave: %v, and the partition is still owned", err)
	}
}

// An attempt to own that fails is repeated.
func TestSourceTriesAgain(t *testing.T) {
	t.Parallel()
	s := newSourced(t)
	s.cluster.Strike(func(simulated.Step) simulated.Fault { return simulated.Lost })
	s.poll(assignment())
	for len(s.attempts) == 0 {
		if b, err := s.source.Poll(t.Context()); err != nil || len(b.Assigned) > 0 || s.position() == nil {
			t.Fatalf("the node is told %+v, %v, of what it can't own", b, err)
		}
	}
	s.cluster.Strike(nil)
	s.clock.Advance(2 * time.Second)
	s.poll(node.Batch{})
	s.until()
	if len(s.attempts) != 2 || s.attempts[0] == nil || s.attempts[1] != nil {
		t.Fatalf("the attempts: %v", s.attempts)
	}
}

// After an unknown outcome the partition is owned anew at once.
func TestSourceUnknown(t *testing.T) {
	t.Parallel()
	s := newSourced(t)
	s.poll(assignment())
	s.until()
	s.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At == simulated.Ending {
			return simulated.Unanswered
		}
		return simulated.None
	})
	if s.position() == nil { // makes a transaction, since there is none
		t.Fatal("the outcome is known")
	}
	s.cluster.Strike(nil)
	if b := s.poll(node.Batch{Records: []node.Record{{Offset: 7}}}); len(b.Revoked) != 1 || len(b.Records) != 0 {
		t.Fatalf("the node is told %+v of a partition that is lost", b)
	}
	s.until()
	if err := s.position(); err != nil {
		t.Fatal(err)
	}
}

// After a fence it is owned anew when a session is over, unless the group has taken it away by then.
func TestSourceFenced(t *testing.T) {
	t.Parallel()
	s := newSourced(t)
	s.poll(assignment())
	s.until()
	own(t, s.stores[1], 0)
	if s.position() == nil {
		t.Fatal("the writer is not fenced")
	}
	if b := s.poll(node.Batch{}); len(b.Revoked) != 1 {
		t.Fatalf("the node is told %+v of a partition that is lost", b)
	}
	for _, wait := range []time.Duration{0, session - time.Second} {
		s.clock.Advance(wait)
		if s.poll(node.Batch{}); s.source.Owning() != 0 {
			t.Fatalf("%v after the fence the partition is owned anew", wait)
		}
	}
	if err := publishNothing(s); err != nil {
		t.Fatalf("the other node is fenced too soon: %v", err)
	}
	s.clock.Advance(time.Second)
	s.poll(node.Batch{})
	s.until()
	if publishNothing(s) == nil {
		t.Fatal("the other node is not fenced when this one owns the partition")
	}
}

// publishNothing has the other node make a transaction.
func publishNothing(s *sourced) error {
	place := node.Place{Partition: input()}
	place.TopicID = uuid.New()
	_, _, err := s.stores[1].Positions(s.Context(), []node.Place{place})
	if err == nil && len(s.stores[1].Lost()) > 0 {
		return errors.New("it has lost the partition")
	}
	return err
}
