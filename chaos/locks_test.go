package chaos_test

import (
	"strings"
	"testing"
	"time"

	"chronos/chaos"
	"chronos/sim/check"
)

// TestDelayedByLocks has a lock delay what is locked, and what stands behind a record about it in its partition. It
// delays nothing that stands before that record or in another partition, or that was submitted once the lock was gone.
func TestDelayedByLocks(t *testing.T) {
	const s, lane, in = time.Second, "out", "in/0"
	submit := func(at time.Duration, number int, id, partition string, offset int64) check.Event {
		return check.Event{
			Kind: check.Submit, At: at, Message: number, ID: id, Topic: lane, Partition: partition, Offset: offset,
		}
	}
	events := []check.Event{
		submit(1*s, 1, "a", in, 0),
		{Kind: check.Lock, At: 2 * s, ID: "a", Topic: lane},
		submit(3*s, 2, "b", in, 1),
		submit(4*s, 3, "a", in, 2),
		submit(5*s, 4, "c", in, 3),
		submit(5*s, 5, "d", "in/1", 7),
		submit(7*s, 6, "e", in, 4),
	}
	locked, behind := chaos.DelayedByLocks(events, 2*s, 6*s)
	for number, want := range map[int][2]bool{
		1: {true, false}, 2: {false, false}, 3: {true, false}, 4: {false, true}, 5: {false, false}, 6: {false, false},
	} {
		if got := [2]bool{locked[number], behind[number]}; got != want {
			t.Errorf("submission %d: locked and behind are %v, want %v", number, got, want)
		}
	}
}

// TestTwiceBeside has a message come out twice: that is allowed if its row was locked, or if a node was killed that had
// claimed it at that moment.
func TestTwiceBeside(t *testing.T) {
	const s = time.Second
	row, owner, other := check.UUID{1}, check.UUID{2}, check.UUID{3}
	with := func(last ...check.Event) []check.Event {
		return append([]check.Event{
			{Kind: check.Start, Node: "1.1", Owner: owner},
			{Kind: check.Start, Node: "2.1", Owner: other},
			{Kind: check.Insert, At: 1 * s, Message: 1, ID: "a", Topic: "out", Incarnation: row},
			{Kind: check.Claim, At: 2 * s, ID: "a", Topic: "out", Incarnation: row, Owner: owner},
			{Kind: check.Fire, At: 3 * s, Message: 1},
		}, last...)
	}
	again := check.Event{Kind: check.Fire, At: 9 * s, Message: 1}
	for name, c := range map[string]struct {
		events []check.Event
		locked bool
		want   string
	}{
		"once":            {with(), false, ""},
		"twice":           {with(again), false, "submission 1 has fired twice"},
		"locked":          {with(again), true, ""},
		"its node killed": {with(check.Event{Kind: check.Crash, At: 4 * s, Node: "1.1"}, again), false, ""},
		"another one":     {with(check.Event{Kind: check.Crash, At: 4 * s, Node: "2.1"}, again), false, "twice"},
		"given back first": {with(check.Event{Kind: check.Reset, Incarnation: row},
			check.Event{Kind: check.Crash, Node: "1.1"}, again), false, "twice"},
	} {
		got := chaos.TwiceBeside(c.events, map[int]bool{1: c.locked})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestHeldApart judges when a topic and callbacks go on after a failover. The hold time is 5 s, and a callback may take
// 20 s.
func TestHeldApart(t *testing.T) {
	const s, promoted = time.Second, 10 * time.Second
	for name, c := range map[string]struct {
		topic, call time.Duration
		want        string
	}{
		"as it has to be":   {7 * s, 27 * s, ""},
		"the topic waits":   {27 * s, 27 * s, "the topic went on 27s after the failover"},
		"calls do not":      {7 * s, 7 * s, "a request was made 7s after the failover"},
		"calls for longer":  {7 * s, 54 * s, "requests were made 54s after the failover"},
		"calls never again": {7 * s, -1 * s, "no request was made"},
	} {
		got := chaos.HeldApart([]check.Event{
			{Kind: check.Fire, At: promoted + c.topic, Topic: chaos.FailoverTopic},
			{Kind: check.Fire, At: promoted + c.call, Topic: "http:chaos"},
		}, promoted)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOnTimeAgain judges lateness after a stall of 1.8 s: what falls due meanwhile has to be out 2 s after it, and what
// falls due then is in time.
func TestOnTimeAgain(t *testing.T) {
	const s, ms, began, ended = time.Second, time.Millisecond, 14 * time.Second, 15800 * time.Millisecond
	for name, c := range map[string]struct {
		stall, meanwhile, later, unheard time.Duration
		want                             string
	}{
		"as it has to be":       {ended - began, 2 * s, 10 * ms, 6 * s, ""},
		"caught":                {ended - began, 7 * s, 10 * ms, 6 * s, "messages elsewhere were late by"},
		"later":                 {ended - began, 2 * s, 500 * ms, 6 * s, "late by 500ms"},
		"expired and no sooner": {ended - began, 2 * s, 10 * ms, 9 * s, "was not told of came out 9s after"},
		"a short stall":         {1 * s, 2 * s, 10 * ms, 6 * s, "shows nothing"},
	} {
		row := check.UUID{1}
		events := []check.Event{
			{Kind: check.Submit, At: 1 * s, Message: 1000, Deadline: began},
			{Kind: check.Insert, At: 2 * s, Message: 1000, Incarnation: row},
			{Kind: check.Reset, At: began + 5*s, Incarnation: row, Stamp: began, Age: 5 * s},
			{Kind: check.Fault, At: began, Text: chaos.TheStall},
			{Kind: check.Fault, At: began + c.stall, Text: chaos.TheStall + ", mended"},
		}
		for i := range 400 {
			due, late := began+time.Duration(i)*50*ms, c.later
			if due < ended+2*s {
				late = c.meanwhile
			}
			events = append(events, check.Event{Kind: check.Submit, At: 1 * s, Message: i, Deadline: due},
				check.Event{Kind: check.Fire, At: due + late, Message: i})
		}
		events = append(events, check.Event{Kind: check.Fire, At: ended + c.unheard, Message: 1000})
		got := chaos.OnTimeAgain(events, began+30*s)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
