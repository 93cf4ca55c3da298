package service_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/service"
)

// partition returns a partition of the topic in.
func partition(number int32) node.Partition { return node.Partition{Topic: "in", Number: number} }

// place returns a place in a partition of the topic in.
func place(number, epoch int32, offset int64) node.Place {
	return node.Place{Partition: partition(number), Position: node.Position{Epoch: epoch, Offset: offset}}
}

// TestAssignedSaysWhatIsToBeRead asks that a node says where it reads from, and tells apart what is read from the first
// record on, because that may fire a history which nobody has in mind. An empty partition is none of these.
func TestAssignedSaysWhatIsToBeRead(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		assigned := func(number int32, first, end int64) node.Assignment {
			return node.Assignment{Extent: node.Extent{Partition: partition(number), First: first, End: end}}
		}
		j.Observe(node.Assigned{
			Assignments: []node.Assignment{
				assigned(0, 0, 500), assigned(1, 100, 700), assigned(2, 0, 0), assigned(3, 5, 9),
			},
			Starts: []node.Place{
				place(0, 3, 480), place(1, node.UnknownEpoch, 100), place(2, node.UnknownEpoch, 0), place(3, 1, 9),
			},
		})
		j.expect(t,
			`level=WARN msg="reading partitions from their first record, with all that waits there: the store had no `+
				`position for them, or was rewound" places="in/1 at 100" records_at_most=600`,
			`level=INFO msg="reading partitions from the store's positions" `+
				`places="in/0 at 480, in/2 at 0, in/3 at 9" records_at_most=20`)
	})
}

// TestManyPlacesAreCut asks that a line stays a line with a hundred partitions.
func TestManyPlacesAreCut(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		var places []node.Place
		for number := range int32(100) {
			places = append(places, place(number, 0, 7))
		}
		j.Observe(node.StartedOver{Places: places})
		j.expect(t, `level=WARN msg="reading starts over at the store's positions: they are not where this node had `+
			`come to" places="in/0 at 7, in/1 at 7, in/2 at 7, in/3 at 7, in/4 at 7, in/5 at 7, in/6 at 7, in/7 at 7, `+
			`and 92 more"`)
	})
}

// TestLossIsOneLineEach asks that what retention took is said for each partition, and counted.
func TestLossIsOneLineEach(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(node.RecordsLost{Losses: []node.Loss{
			{Partition: partition(0), From: 10, To: 50}, {Partition: partition(4), From: 0, To: 1},
		}})
		line := `level=ERROR msg="Kafka has deleted records before they were taken in: its retention is shorter than ` +
			`this service was behind" topic=in `
		j.expect(t, line+`partition=0 from=10 to=50 records_at_most=40`,
			line+`partition=4 from=0 to=1 records_at_most=1`)
		j.Observe(node.SkippedTaken{Records: 3})
		j.text.reset()
		j.Summary()
		if got := j.text.String(); !strings.Contains(got, "taken_in_before=3 lost_to_retention_at_most=41\n") {
			t.Errorf("the summary is %s", got)
		}
	})
}

// TestSkippedIsAddedUp has records come again a hundred times a second: one line at once, and one every reminder.
func TestSkippedIsAddedUp(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		for range 100 {
			j.Observe(node.SkippedTaken{Records: 2})
			pass(10 * time.Millisecond)
		}
		j.expect(t, `level=INFO msg="skipped records that had been taken in before" records=2`)
		pass(service.ReminderInterval + time.Second)
		j.expect(t, `level=INFO msg="skipped records that had been taken in before" records=198`)
	})
}

// TestLineages asks for a sentence for each thing that can happen to the history of a store.
func TestLineages(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(node.LineageChanged{From: 4, To: 1, Forgotten: make([]node.Claim, 3)})
		j.Observe(node.CatchingUp{From: 1, To: 5, Marks: []node.Extent{{First: 3, End: 9}, {First: 0, End: 1}}})
		j.Observe(node.LineageChanged{From: 4, To: 5})
		j.Observe(node.CaughtUp{Lineage: 5})
		j.expect(t,
			`level=WARN msg="the store was set back and does not know it yet: this node has forgotten its claims, and `+
				`tells it" lineage=1 former=4 claims=3`,
			`level=WARN msg="the store was set back: nothing fires until the input topics are taken in again as far `+
				`as they reach now" lineage=5 partitions=2`,
			`level=WARN msg="the store was set back or rewound: this node has forgotten its claims, and claims again `+
				`when the store has caught up" lineage=5 former=4 claims=0`,
			`level=INFO msg="the store has caught up: messages fire again" lineage=5`)
	})
}

// TestSettingsDiffer asks that a person is told which setting, and of which node.
func TestSettingsDiffer(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		for i := range 40 { // as after an upgrade
			j.Observe(node.SettingsDiffer{
				Setting: "HoldTime", Ours: 5 * time.Second, Theirs: time.Minute + time.Duration(i), Node: otherID,
			})
		}
		j.expect(t, `level=WARN msg="another node works with another setting: give all nodes the same" `+
			`setting=hold-time ours=5s theirs=1m0s node=`+otherID.String())
	})
}

// TestLaneIsNamed lets one lane fail, then the source: the first is the outage of a topic, the second that of Kafka,
// and each is back by itself.
func TestLaneIsNamed(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		lane := node.Failed{Operation: node.Fire, Port: node.PortSink, Lane: "orders.out", Call: "publish", Err: io.EOF}
		j.Observe(lane)
		j.Observe(lane)
		j.Observe(node.Failed{Operation: node.Enqueue, Port: node.PortSource, Call: "poll", Err: io.EOF})
		j.expect(t,
			`level=WARN msg="topic orders.out unavailable; retrying" call="fire: publish" error=EOF`,
			`level=WARN msg="Kafka unavailable; retrying" call="enqueue: poll" error=EOF`)
		pass(time.Second)
		j.Observe(node.Resumed{Operation: node.Enqueue, Port: node.PortSource, Attempts: 1})
		pass(4 * time.Second)
		j.expect(t, `level=INFO msg="Kafka available again" since=2000-01-01T00:00:01.000Z away=1s`)
		j.Observe(node.Resumed{Operation: node.Fire, Port: node.PortSink, Lane: "orders.out", Attempts: 2})
		pass(4 * time.Second)
		j.expect(t, `level=INFO msg="topic orders.out available again" since=2000-01-01T00:00:05.000Z away=5s`)
	})
}
