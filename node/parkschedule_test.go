package node_test

import (
	"fmt"
	"testing"
	"time"

	"chronos/node"
)

// scheduled returns a schedule with the lanes a and b, and n parts of a, each of which holds so many messages.
func scheduled(t *testing.T, parts, each int) *node.LaneSchedule {
	t.Helper()
	c := config(0)
	s := node.NewLaneSchedule(&c, &clock{&gate{}, time.Now()}, []string{"a", "b"}, 3)
	for i := range parts {
		s.Hold(node.Part{Lane: "a", Name: fmt.Sprint(i)}, each)
	}
	return s
}

// All parts in doubt are in one batch, and no lane in doubt is in it: that comes alone.
func TestPartsProbedTogether(t *testing.T) {
	s := scheduled(t, 5, 0)
	for _, lane := range []string{"a", "b"} {
		s.Hold(node.Part{Lane: lane}, 1)
	}
	taken, done := s.Take()
	if done(true); len(taken) != 2 {
		t.Fatalf("it has taken %v", taken)
	}
	for range 10 {
		s.Hold(node.Part{Lane: "a"}, 1)
		s.Hold(node.Part{Lane: "b"}, 1)
		for i := range 5 {
			s.Hold(node.Part{Lane: "a", Name: fmt.Sprint(i)}, 1)
		}
		for batches := 0; ; batches++ {
			taken, done := s.Take()
			if len(taken) == 0 {
				if batches != 3 {
					t.Errorf("%d batches of two lanes and five parts", batches)
				}
				break
			}
			if len(taken) != 1 && len(taken) != 5 {
				t.Errorf("it has taken %v", taken)
			}
			done(true)
		}
	}
}

// The parts of a lane have no more publishers than the lane, and none that are never given back.
func TestPartsShareTheirLane(t *testing.T) {
	const parts = 6
	s := scheduled(t, parts, 1)
	taken, done := s.Take()
	if done(false); len(taken) != parts {
		t.Fatalf("it has taken %v", taken)
	}
	for range 10 {
		var under []func(bool)
		for i := range parts { // each by itself
			s.Hold(node.Part{Lane: "a", Name: fmt.Sprint(i)}, 1)
			if taken, done := s.Take(); len(taken) > 0 {
				under = append(under, done)
			}
		}
		if len(under) != 3 {
			t.Errorf("%d batches of a lane at the same time", len(under))
		}
		for _, done := range under {
			done(false)
		}
		for { // the others, together
			taken, done := s.Take()
			if len(taken) == 0 {
				break
			}
			done(false)
		}
	}
}

// What is held of parts in doubt is beside what the lanes share.
func TestPartsTakeNoRoom(t *testing.T) {
	s := scheduled(t, 20, 0)
	before := s.Room(node.Part{Lane: "a"})
	for i := range 20 {
		s.Hold(node.Part{Lane: "a", Name: fmt.Sprint(i)}, 10)
	}
	if got := s.Room(node.Part{Lane: "a"}); got != before {
		t.Errorf("room for %d messages, and for %d beside parts that do not answer", before, got)
	}
}
