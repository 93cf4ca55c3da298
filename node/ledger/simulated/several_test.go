package simulated_test

import (
	"context"
	"testing"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/ledgertest"
	"chronos/node/ledger/simulated"
)

// second is the second ledger of ledger.Several, with the numbers that its partitions have by themselves.
type second struct{ several ledger.Several }

func (s second) Own(ctx context.Context, number int32, fence ledger.Entry) (ledger.Writer, error) {
	return s.several.Own(ctx, ledger.Number(1, number), fence)
}

func (s second) Read(ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error) error {
	from.Number = ledger.Number(1, from.Number)
	return s.several.Read(ctx, from, until, each)
}

func (s second) Begin(ctx context.Context, number int32) (ledger.Place, error) {
	place, err := s.several.Begin(ctx, ledger.Number(1, number))
	_, place.Number = ledger.Split(place.Number)
	return place, err
}

func (s second) End(ctx context.Context, number int32) (ledger.Place, error) {
	place, err := s.several.End(ctx, ledger.Number(1, number))
	_, place.Number = ledger.Split(place.Number)
	return place, err
}

func (s second) Extents(ctx context.Context) (there []node.Extent, err error) {
	extents, err := s.several.Extents(ctx)
	for _, e := range extents {
		var at int
		if at, e.Number = ledger.Split(e.Number); at == 1 {
			there = append(there, e)
		}
	}
	return there, err
}

// A ledger that is the second of several does all that it does by itself, beside a smaller one.
func TestSeveral(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) ledgertest.Environment {
		env := environment()
		cluster := env.cluster
		cluster.CreateTopic("small", 1, 0)
		alone := env.Open
		env.Open = func(t testing.TB) ledger.Ledger {
			t.Helper()
			return second{ledger.Several{cluster.Ledger("small", "small"), alone(t)}}
		}
		return env.Environment
	})
}

// Where a ledger can't be seen, that is an error beside the partitions of the others; and a number that no ledger has
// is an error.
func TestSeveralUnseen(t *testing.T) {
	t.Parallel()
	cluster := simulated.New()
	cluster.CreateTopic("a", 2, 0)
	cluster.CreateTopic("b", 1, 0)
	several := ledger.Several{cluster.Ledger("a", "a"), cluster.Ledger("b", "b")}
	extents, err := several.Extents(t.Context())
	if err != nil || len(extents) != 3 || extents[1].Number != 1 || extents[2].Number != ledger.Number(1, 0) ||
		extents[2].Topic != "b" {
		t.Errorf("extents: %+v, %v", extents, err)
	}
	for _, e := range extents {
		begin, first := several.Begin(t.Context(), e.Number)
		end, second := several.End(t.Context(), e.Number)
		if begin.Number != e.Number || end.Number != e.Number || begin.TopicID != e.TopicID || first != nil ||
			second != nil {
			t.Errorf("partition %s begins at %+v, %v, and ends at %+v, %v", ledger.Name(e.Number), begin, first, end,
				second)
		}
	}
	for _, number := range []int32{-1, ledger.Number(2, 0)} {
		if _, err := several.Begin(t.Context(), number); err == nil {
			t.Errorf("partition %s has a beginning", ledger.Name(number))
		}
	}
	cluster.CreateTopic("b", 0, 0)
	if extents, err := several.Extents(t.Context()); err == nil || len(extents) != 2 {
		t.Errorf("a topic has no partitions, and there are %+v, %v", extents, err)
	}
	cluster.DeleteTopic("b")
	if extents, err := several.Extents(t.Context()); err == nil || len(extents) != 2 {
		t.Errorf("a topic is gone, and there are %+v, %v", extents, err)
	}
	if got := ledger.Name(3) + ", " + ledger.Name(ledger.Number(1, 3)); got != "3, 3 of input 2" {
		t.Errorf("names: %s", got)
	}
}
