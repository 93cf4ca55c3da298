package service_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/outlook"
)

// looked returns an outlook on one lane that has so much overdue.
func looked(overdue int, since time.Duration) outlook.Outlook {
	lane := outlook.Lane{
		Name: "out", Waiting: outlook.Count{N: 100}, Overdue: outlook.Count{N: overdue},
		Within: []outlook.Count{{N: 7}, {N: 8}, {N: 12_000, Estimated: true}, {N: 20_000, Estimated: true}},
	}
	if overdue > 0 {
		lane.Oldest = time.Now().Add(-since)
		lane.Origins = []outlook.Origin{{Topic: "in", Partition: 1, Messages: 9}, {Topic: "in", Messages: 2}}
	}
	return outlook.Outlook{Lanes: []outlook.Lane{lane}}
}

// Goal: while anything is overdue the log says so once a minute, with what is known of it, and once when it is over.
// Method: looks every 15 s, of which some find something.
func TestOverdueIsOneLineAMinute(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Seen(looked(0, 0), nil)
		j.expect(t)
		line := func(n int, oldest, why string) string {
			return fmt.Sprintf(`level=WARN msg="messages are overdue" messages=%d oldest=%[2]s lanes="out: %[1]d, `+
				`the oldest for %[2]s" oldest_came_from="in/1: 9, in/0: 2" why="%[3]s"`, n, oldest, why)
		}
		for i := range 6 {
			pass(15 * time.Second)
			j.Seen(looked(11+i, time.Duration(i)*15*time.Second+4*time.Second), nil)
		}
		j.expect(t, line(11, "4s", "this node knows no reason, and fires nothing on out"),
			line(15, "1m4s", "this node knows no reason, and fires nothing on out"))
		j.Seen(outlook.Outlook{}, errors.New("the store is away"))
		unknown := looked(0, 0)
		unknown.Lanes[0].Overdue.Unknown = true
		j.Seen(unknown, nil)
		j.expect(t)
		pass(15 * time.Second)
		j.Seen(looked(0, 0), nil)
		j.expect(t, `level=INFO msg="nothing is overdue any more" away=1m30s`)
		pass(15 * time.Second)
		j.Seen(looked(0, 0), nil)
		j.expect(t)
	})
}

// Goal: where messages are overdue because a partition does not answer, the log names it, whatever else comes out of
// the lane. Method: two looks.
func TestOverdueForParked(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		seen := looked(50, time.Minute)
		seen.Lanes[0].Parked = []outlook.Parked{{Part: "3", Waiting: outlook.Count{N: 49}}}
		j.Seen(seen, nil)
		pass(10 * time.Second)
		j.Observe(node.Fired{Messages: make100("out"), At: time.Now()})
		j.Seen(seen, nil)
		const why = `why="49 messages of out are parked: partition 3 does not answer"`
		if text := j.text.String(); !strings.Contains(text, why) {
			t.Errorf("the log has\n%s", text)
		}
		j.text.reset()
	})
}

// Goal: what is overdue when a node starts is told at its second look, with what it has learned by then. Method: two
// looks.
func TestOverdueAtTheStart(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Seen(looked(50, time.Minute), nil)
		j.expect(t)
		pass(10 * time.Second)
		j.Observe(node.Fired{Messages: make100("out"), At: time.Now()})
		j.Seen(looked(40, time.Minute), nil)
		const why = `why="a backlog on out: this node fires 10 messages/s there"`
		if text := j.text.String(); !strings.Contains(text, why) {
			t.Errorf("the log has\n%s", text)
		}
		j.text.reset()
		pass(10 * time.Second)
		j.Seen(looked(0, 0), nil)
		j.expect(t, `level=INFO msg="nothing is overdue any more" away=20s`)
	})
}

// Goal: where messages are overdue, the log says how much more of a backlog lies in Kafka, unless that is what always
// lies there. Method: a look with each.
func TestOverdueSaysWhatIsInKafka(t *testing.T) {
	for records, want := range map[int64]bool{999: false, 348_767: true} {
		report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
			j.SetBehind(records)
			j.Seen(looked(0, 0), nil)
			j.Seen(looked(500, time.Second), nil)
			if text := j.text.String(); strings.Contains(text, fmt.Sprintf("still_in_kafka=%d", records)) != want {
				t.Errorf("with %d records in Kafka the log has\n%s", records, text)
			}
		})
	}
}

// Goal: the line says why, as far as the node can tell. Method: a cause of each kind before a look.
func TestOverdueSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		before func(j *journal)
		seen   func() outlook.Outlook
		why    string
	}{
		"the topic is missing": {
			func(j *journal) {
				j.Observe(node.Unpublished{
					Messages: []node.Message{{Lane: "out"}}, Err: node.TopicMissing, Permanent: true,
				})
			},
			func() outlook.Outlook { return looked(5, time.Minute) },
			"messages could not be published on out: topic missing or forbidden",
		},
		"the topic is out": {
			func(j *journal) {
				j.Observe(node.Failed{
					Operation: node.Fire, Port: node.PortSink, Lane: "out", Call: "publish", Err: errRefused,
				})
				pass(4 * time.Second)
			},
			func() outlook.Outlook { return looked(5, time.Minute) },
			"topic out has been unavailable for 4s",
		},
		"a backlog": {
			func(j *journal) {
				pass(10 * time.Second)
				j.Observe(node.Fired{Messages: make100("out"), At: time.Now()})
			},
			func() outlook.Outlook { return looked(5, time.Minute) },
			"a backlog on out: this node fires 10 messages/s there",
		},
		"a backlog that others fire": {
			func(j *journal) { j.Seen(looked(25, time.Minute), nil); pass(time.Minute) },
			func() outlook.Outlook { return looked(5, time.Minute) },
			"a backlog on out, which other nodes fire: it is 20 less than 1m0s ago",
		},
		"held": {
			func(*journal) {},
			func() outlook.Outlook {
				seen := looked(5, time.Minute)
				seen.Lanes[0].Claimed = outlook.Count{N: 3}
				return seen
			},
			"3 messages of out are held by nodes; what a node held that has died is taken over after the hold time",
		},
		"set back": {
			func(j *journal) { j.Observe(node.CatchingUp{From: 1, To: 2}) },
			func() outlook.Outlook { return looked(5, time.Minute) },
			"the store was set back, and nothing fires until it has caught up",
		},
		"paused": {
			func(j *journal) { j.Paused([]node.Pause{{By: "x"}, {Lane: "out", By: "ann", Why: "a release"}}) },
			func() outlook.Outlook { return looked(5, time.Minute) },
			"out is paused, by ann (a release)",
		},
		"throttled": {
			func(j *journal) { j.Throttled("sink", 1, time.Minute); pass(3 * time.Second) },
			func() outlook.Outlook { return looked(5, time.Minute) },
			"Kafka throttles this node, last 3s ago: a quota of its user or its client id is used up",
		},
		"over": {
			func(j *journal) {
				j.Observe(node.CatchingUp{From: 1, To: 2})
				j.Observe(node.CaughtUp{Lineage: 2})
			},
			func() outlook.Outlook { return looked(5, time.Minute) },
			"this node knows no reason, and fires nothing on out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
				j.Seen(looked(0, 0), nil)
				c.before(j)
				j.text.reset()
				j.Seen(c.seen(), nil)
				text := j.text.String()
				if strings.Count(text, "\n") != 1 || !strings.Contains(text, `why="`+c.why+`"`) {
					t.Errorf("the log has\n%swant one line with why=%q", text, c.why)
				}
			})
		})
	}
}

// make100 returns a hundred messages that are on time.
func make100(lane string) []node.Message {
	all := make([]node.Message, 100)
	for i := range all {
		all[i] = node.Message{Lane: lane, Incarnation: uuid.New(), Deadline: time.Now()}
	}
	return all
}

// Goal: an outage says what waits meanwhile, as far as it was seen. Method: one after a look at the store.
func TestOutageSaysWhatWaits(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Seen(looked(0, 0), nil)
		pass(5 * time.Second)
		j.Observe(storeFailed)
		j.expect(t, downLine+
			` waits="0 overdue, 7 due within a minute, 12,000+ within an hour (as seen 5s ago)"`)
	})
}

// Goal: messages that come out late are told once a minute, if they are more than one in a hundred, and it is told when
// that is over; those that came late themselves do not count. Method: minutes with different shares of late messages.
func TestLatenessIsOneLineAMinute(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		fire := func(n int, late time.Duration, afterDeadline bool) {
			messages := make([]node.Message, n)
			for i := range messages {
				messages[i] = node.Message{Lane: "out", Incarnation: uuid.New(), Deadline: time.Now().Add(-late)}
			}
			if afterDeadline {
				j.Observe(node.Enqueued{Messages: messages})
			}
			j.Observe(node.Fired{Messages: messages, At: time.Now()})
		}
		minute := func() { pass(61 * time.Second) }
		fire(10_000, 5*time.Millisecond, false)
		fire(90, time.Second, false) // less than one in a hundred
		fire(500, time.Hour, true)
		minute()
		j.expect(t)
		fire(900, 5*time.Millisecond, false)
		fire(100, 354*time.Millisecond, false)
		minute()
		j.expect(t, `level=WARN msg="messages come out late" fired=1000 late=100 later_than=200ms p99=354ms `+
			`worst=354ms slowest_calls=""`)
		fire(900, 5*time.Millisecond, false)
		minute()
		j.expect(t, `level=INFO msg="messages come out on time again" away=1m1s`)
		minute()
		j.expect(t)
	})
}

// Goal: when an outage of a topic has ended, nothing of it is said any more. Method: two messages that can't be
// published, of which the second is added up, and then one that can.
func TestNothingIsSaidAfterTheEnd(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		failed := node.Failed{Operation: node.Fire, Port: node.PortSink, Lane: "out", Call: "publish", Err: errRefused}
		lost := node.Unpublished{Messages: []node.Message{{Lane: "out"}}, Err: node.TopicMissing, Permanent: true}
		j.Observe(failed)
		j.Observe(lost)
		pass(time.Second)
		j.Observe(failed)
		j.Observe(lost)
		j.Observe(node.Resumed{Operation: node.Fire, Port: node.PortSink, Lane: "out"})
		pass(2 * time.Minute)
		text := j.text.String()
		before, after, ended := strings.Cut(text, "topic out available again")
		if !ended || strings.Count(before, "could not publish") != 1 || strings.Contains(after, "could not publish") {
			t.Errorf("the log has\n%s", text)
		}
	})
}
