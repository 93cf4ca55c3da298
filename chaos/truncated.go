package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// The brokers that alone have some partitions of the input: one leads them, the other follows until it is frozen.
const (
	theLeader   = 1
	theFollower = 2
)

// aloneFor is how long the leader takes records in that nobody else has.
const aloneFor = 5 * time.Second

// cut is a partition of the input that has lost the end of its log.
type cut struct {
	partition int32

	// epoch and position are how far the store had taken it in when nobody led it any more.
	epoch    int32
	position int64

	end int64 // of what is left of the log that was led until then
}

// truncationScenarios are about a Kafka that loses what it has acknowledged.
func truncationScenarios() []*Scenario {
	return []*Scenario{{
		Name: "truncated",
		About: "Half of the input's partitions lose the end of their logs, also what was taken in already: an " +
			"operator has a replica lead them that lacks it.",
		Servers: true, Outside: true,
		Brokers: 3, Lasts: 45 * time.Second,
		place: func(t topics, topic string) map[int][]int32 {
			places := map[int][]int32{}
			for p := 0; topic == t.routes[0].in && p < partitions; p += 2 {
				places[p] = []int32{theLeader, theFollower}
			}
			return places
		},
		prepare: aloneIsEnough,
		draw:    func(n *nemesis) { n.truncate(4 * time.Second) },
		demands: []demand{toldOfTheCut},
	}}
}

// aloneIsEnough has leaders of the input acknowledge what nobody else has.
func aloneIsEnough(ctx context.Context, r *run) error {
	client, err := r.kafka.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	altered, err := kadm.NewClient(client).AlterTopicConfigs(ctx,
		[]kadm.AlterConfig{{Name: "min.insync.replicas", Value: new("1")}}, r.topics.routes[0].in)
	for _, a := range altered {
		err = errors.Join(err, a.Err)
	}
	if err != nil {
		return fmt.Errorf("have one replica be enough: %w", err)
	}
	return nil
}

// truncate has logs lose their ends. The follower is frozen until it is in sync no more; the leader takes records, and
// nodes take them in; the leader is killed, and when no node takes in anything more of it, the follower goes on, and is
// elected in spite of what it lacks. Then the former leader comes back, and gives up what only it has.
func (n *nemesis) truncate(at time.Duration) {
	brokers := n.cluster.kafka.Brokers
	leader, follower := brokers[theLeader-1], brokers[theFollower-1]
	tell := func(text string) { n.history.add(check.Event{Kind: check.Fault, Text: text}) }
	const again = 5 * time.Second // see last
	n.add(fault{
		at: at, text: "the replica that follows on half of the input is frozen, the one that leads it is killed, and " +
			"the former one leads",
		strike: func(ctx context.Context) error {
			var waits sync.WaitGroup
			defer waits.Wait()
			lasting, over := context.WithCancel(ctx)
			defer over()
			waits.Go(func() {
				for sleepUntil(lasting, time.Now().Add(again)) {
					tell("brokers are away, still")
				}
			})
			if err := follower.Freeze(ctx); err != nil {
				return err
			}
			if err := n.ledBy(ctx, theLeader, true); err != nil {
				return err
			}
			sleepUntil(ctx, time.Now().Add(aloneFor))
			tell("the only replica in sync of half of the input is killed")
			n.reach(check.Cut, "broker") // with both away, there is no controller
			defer n.reach(check.Mend, "broker")
			if err := leader.Kill(ctx); err != nil {
				return err
			}
			cuts, err := n.positions(ctx)
			if err != nil {
				return err
			}
			if err := follower.Thaw(ctx); err != nil {
				return err
			}
			if err := n.ledBy(ctx, theFollower, false); err != nil {
				return err
			}
			tell("half of the input has lost the ends of its logs")
			err = n.measure(ctx, time.Now(), cuts)
			return errors.Join(err, leader.Start(ctx), n.cluster.kafka.Whole(ctx, time.Minute))
		},
	})
}

// ledBy waits until a broker leads the partitions that lose their ends, alone in sync or not. Where another one does,
// or nobody, it has that broker elected, whatever it lacks.
func (n *nemesis) ledBy(ctx context.Context, broker int32, alone bool) error {
	client, err := n.cluster.kafka.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	admin, topic := kadm.NewClient(client), n.cluster.topics.routes[0].in
	places := n.cluster.scenario.place(n.cluster.topics, topic)
	return servers.Await(ctx, time.Minute, func(ctx context.Context) error {
		metadata, err := admin.Metadata(ctx, topic)
		if err != nil {
			return fmt.Errorf("look who leads %s: %w", topic, err)
		}
		others := kadm.TopicsSet{}
		for p := range places {
			is := metadata.Topics[topic].Partitions[int32(p)]
			switch {
			case is.Leader != broker:
				others.Add(topic, int32(p))
			case alone && len(is.ISR) > 1:
				return fmt.Errorf("%s/%d has %v in sync", topic, p, is.ISR)
			}
		}
		if len(others) == 0 {
			return nil
		}
		if _, err := admin.ElectLeaders(ctx, kadm.ElectLiveReplica, others); err != nil {
			return fmt.Errorf("elect leaders: %w", err)
		}
		return fmt.Errorf("%v are led by others", others)
	})
}

// positions returns how far the store has taken in the partitions that nobody leads, as soon as that moves no more:
// what was polled before is on its way for a moment.
func (n *nemesis) positions(ctx context.Context) ([]cut, error) {
	var last []cut
	for same := 0; same < 3; {
		var now []cut
		err := n.cluster.postgres.now().Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			rows, err := conn.Query(ctx, `
				SELECT DISTINCT ON (partition) partition, epoch, next_offset FROM positions
				JOIN partitions USING (topic_id, partition)
				WHERE topic = $1 AND partition % 2 = 0 ORDER BY partition, turn DESC`, n.cluster.topics.routes[0].in)
			if err != nil {
				return err
			}
			now, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c cut, err error) {
				return c, row.Scan(&c.partition, &c.epoch, &c.position)
			})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look up positions: %w", err)
		}
		if same++; fmt.Sprint(now) != fmt.Sprint(last) {
			last, same = now, 0
		}
		if !sleepUntil(ctx, time.Now().Add(500*time.Millisecond)) {
			return nil, ctx.Err()
		}
	}
	return last, nil
}

// measure finds out where the logs are cut that were led until an instant, and takes note of what is gone that no node
// has taken in: nothing can come of it.
func (n *nemesis) measure(ctx context.Context, until time.Time, cuts []cut) error {
	client, err := n.cluster.kafka.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	topic := n.cluster.topics.routes[0].in
	request := kadm.OffsetForLeaderEpochRequest{}
	for _, c := range cuts {
		request.Add(topic, c.partition, c.epoch)
	}
	ends, err := kadm.NewClient(client).OffsetForLeaderEpoch(ctx, request)
	if err != nil {
		return fmt.Errorf("ask where %s is cut: %w", topic, err)
	}
	at := map[int32]cut{}
	for _, c := range cuts {
		end := ends[topic][c.partition]
		if end.Err != nil {
			return fmt.Errorf("ask where %s/%d is cut: %w", topic, c.partition, end.Err)
		}
		c.end = end.EndOffset
		at[c.partition] = c
		n.cuts = append(n.cuts, c)
	}
	taken, gone := 0, 0
	n.each(func(s *submission) {
		c, is := at[s.partition]
		if !is || s.route != 0 || s.offset < c.end || s.acknowledged.After(until) {
			return
		}
		if s.offset < c.position {
			taken++
			return
		}
		gone++
		s.decided = true
		n.history.excuse(s.number)
	})
	n.count(cutAndTaken, taken)
	n.count("records that Kafka has lost before they were taken in", gone)
	return nil
}

// cutAndTaken is what is counted of what comes out although Kafka has lost it.
const cutAndTaken = "records that Kafka has lost after they were taken in"

// toldOfTheCut demands that a node has told of each partition that it goes on where the log is cut, and that none takes
// the store for one that was set back. That everything comes out, but for what was lost before it was taken in, is S1.
func toldOfTheCut(r *run, _ *Result) string {
	if n := r.nemesis.counts[cutAndTaken]; n < 50 {
		return fmt.Sprintf("only %d records were lost after they had been taken in: that shows nothing", n)
	}
	told := map[int32]int64{}
	files, err := filepath.Glob(r.logs("node-*.log"))
	if err != nil {
		return err.Error()
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err.Error()
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct {
				Msg       string
				Partition int32
				To        int64
			}
			if json.Unmarshal(lines.Bytes(), &line) != nil {
				continue
			}
			if strings.HasPrefix(line.Msg, "Kafka has lost records at the end of an input partition") {
				told[line.Partition] = line.To
			}
			if strings.Contains(line.Msg, "set back") {
				_ = file.Close() // it was only read
				return fmt.Sprintf("the store was not set back, and a node says: %s", line.Msg)
			}
		}
		_ = file.Close() // it was only read
	}
	for _, c := range r.nemesis.cuts {
		if to, said := told[c.partition]; c.end < c.position && (!said || to != c.end) {
			return fmt.Sprintf("partition %d was cut at %d, and taken in up to %d: nodes say that they go on at %d "+
				"(%t)", c.partition, c.end, c.position, to, said)
		}
	}
	return ""
}
