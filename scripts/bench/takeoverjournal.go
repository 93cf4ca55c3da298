package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/chaos/servers"
	"chronos/cmd/chronos/bench"
)

// takenOver is how a node on a journal has taken over from one that was killed, since that.
type takenOver struct {
	given time.Duration // the consumer group has given it the partitions: a session is in it
	owned time.Duration // the last one is owned: its journal was read
	out   time.Duration // messages of the last one come out again

	partitions int // how many it has taken over
}

// measureTakeoverJournal has two nodes share a journal, and kills one in whose partitions a million messages wait.
func measureTakeoverJournal(ctx context.Context, g *ground, t *table) error {
	if err := g.warmJournal(ctx); err != nil {
		return err
	}
	t.head = append(lateHead("one of two nodes on a journal is killed (SIGKILL), 1,000 messages/s, ms after the "+
		"deadline"), "came out twice")
	t.head = slices.Insert(t.head, 1, "waiting in its partitions", "the group has given them to the other one, s "+
		"after it", "their journal is read, s", "messages of them come out again, s", "of that reading, s")
	return each(ctx, g, []bool{false, true}, one, func(s *site, standby bool) error {
		s.keep()
		s.standby = standby
		if err := s.start(ctx, 2); err != nil {
			return err
		}
		const waiting = 1_000_000
		if err := s.bring(ctx, 2*waiting); err != nil {
			return err
		}
		t.on("without a standby")
		if standby {
			t.on("with --standby")
			if err := s.awaitCopies(ctx, s.nodes[1]); err != nil {
				return err
			}
		}
		what := t.row
		r, o, err := s.takeOver(ctx, t)
		if err != nil {
			return err
		}
		row := append(lateRow(what, r), count(float64(r.Integrity.Doubled)))
		t.add(slices.Insert(row, 1, append([]string{
			count(float64(s.messages(2*waiting)*o.partitions) / partitions),
		}, o.cells()...)...)...)
		return nil
	})
}

// takeOver kills the first one of two nodes under load, and has the other one take over.
func (s *site) takeOver(ctx context.Context, t *table) (r *bench.Result, o takenOver, err error) {
	// The load measures processes as long as it runs, so the one that ends is not among those it is told of.
	killed, other := s.nodes[0], s.nodes[1]
	s.nodes = s.nodes[1:]
	defer func() { s.nodes = append(s.nodes, killed) }()
	var at time.Time
	var lost []int32
	given := make(chan givenTo, 1)
	if r, err = s.whileOneEnds(ctx, t, func() (err error) {
		if lost, err = lastOwnings(killed, other); err != nil {
			return err
		}
		at = time.Now()
		err = killed.Stop(syscall.SIGKILL, 20*time.Second)
		go func() { given <- s.awaitOne(ctx) }()
		return err
	}); err != nil {
		return nil, o, err
	}
	to := <-given
	if to.err != nil {
		return nil, o, to.err
	}
	o.given, o.partitions = to.at.Sub(at), len(lost)
	if o.owned, err = ownedAfter(other, at, lost); err != nil {
		return nil, o, err
	}
	o.out, err = s.outAfter(ctx, at, lost)
	return r, o, err
}

// cells are the times, and what of them was reading.
func (o *takenOver) cells() []string {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
	return []string{seconds(o.given), seconds(o.owned), seconds(o.out), seconds(max(o.owned-o.given, 0))}
}

// awaitCopies waits until a standby has all that it does not own, and lacks nothing of it.
func (s *site) awaitCopies(ctx context.Context, node *servers.Process) error {
	find := regexp.MustCompile(`"msg":"serving metrics and health","url":"([^"]+)"`)
	log, err := os.ReadFile(node.Log)
	if err != nil {
		return fmt.Errorf("read the log of a node: %w", err)
	}
	url := find.FindSubmatch(log)
	if url == nil {
		return fmt.Errorf("%s does not say where the metrics are", node.Log)
	}
	return servers.Await(ctx, patience, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(url[1])+"/metrics", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // it was read
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		for _, wanted := range []string{
			`chronos_journal_standby_copies{state="cold"} 0`, "chronos_journal_standby_behind 0",
		} {
			if !strings.Contains(string(text), "\n"+wanted+"\n") {
				return fmt.Errorf("the metrics do not have %s", wanted)
			}
		}
		return nil
	})
}

// ownings is when a node has come to own which partitions of its journal, by its log.
func ownings(log []byte) (all map[int32]time.Time, err error) {
	all = map[int32]time.Time{}
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte(`"msg":"owns a partition of the journal"`)) {
			continue
		}
		var said struct {
			Time      time.Time `json:"time"`
			Partition int32     `json:"partition"`
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return nil, fmt.Errorf("read that a node owns a partition: %w", err)
		}
		all[said.Partition] = said.Time
	}
	return all, nil
}

// lastOwnings reads the logs of two nodes, and returns which partitions the first one has owned last.
func lastOwnings(one, other *servers.Process) (partitions []int32, err error) {
	var logs [2]map[int32]time.Time
	for i, p := range []*servers.Process{one, other} {
		text, err := os.ReadFile(p.Log)
		if err != nil {
			return nil, fmt.Errorf("read the log of a node: %w", err)
		}
		if logs[i], err = ownings(text); err != nil {
			return nil, err
		}
	}
	for number, at := range logs[0] {
		if at.After(logs[1][number]) {
			partitions = append(partitions, number)
		}
	}
	if len(partitions) == 0 {
		return nil, errors.New("the node that is to be killed owns no partition")
	}
	return partitions, nil
}

// ownedAfter returns how long after an instant a node has come to own the last of some partitions.
func ownedAfter(node *servers.Process, at time.Time, partitions []int32) (most time.Duration, err error) {
	text, err := os.ReadFile(node.Log)
	if err != nil {
		return 0, fmt.Errorf("read the log of a node: %w", err)
	}
	all, err := ownings(text)
	if err != nil {
		return 0, err
	}
	for _, number := range partitions {
		owned, is := all[number]
		if !is || owned.Before(at) {
			return 0, fmt.Errorf("partition %d was not taken over", number)
		}
		most = max(most, owned.Sub(at))
	}
	return most, nil
}

// givenTo is when a group had given all partitions to the one member that it has.
type givenTo struct {
	at  time.Time
	err error
}

// awaitOne waits until the group of the site has one member, which has all partitions.
func (s *site) awaitOne(ctx context.Context) (given givenTo) {
	client, err := s.kafka.Connect()
	if err != nil {
		return givenTo{err: err}
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	given.err = servers.Await(ctx, time.Minute, func(ctx context.Context) error {
		described, err := admin.DescribeGroups(ctx, s.name)
		if err != nil {
			return err
		}
		group := described[s.name]
		has := 0
		for _, m := range group.Members {
			if assigned, is := m.Assigned.AsConsumer(); is {
				for _, topic := range assigned.Topics {
					has += len(topic.Partitions)
				}
			}
		}
		if len(group.Members) != 1 || has < partitions || group.State != "Stable" {
			return fmt.Errorf("the group is %s, with %d members, which have %d partitions",
				group.State, len(group.Members), has)
		}
		given.at = time.Now()
		return nil
	})
	return given
}

// outAfter returns how long after an instant messages of the last of some partitions came out again. A message comes
// out in the partition of the output that has the number of the one that it came in by: both have its key, and as many
// partitions. Brokers make the timestamps. The longest pause behind the instant is the takeover.
func (s *site) outAfter(ctx context.Context, at time.Time, numbers []int32) (most time.Duration, err error) {
	stamps, err := s.stamps(ctx, s.routes[0][1], at.Add(-time.Second))
	if err != nil {
		return 0, err
	}
	for _, number := range numbers {
		again, err := afterPause(stamps[number], at)
		if err != nil {
			return 0, fmt.Errorf("partition %d of the output: %w", number, err)
		}
		most = max(most, again.Sub(at))
	}
	return most, nil
}

// afterPause returns when the longest pause is over that ends after an instant.
func afterPause(stamps []time.Time, at time.Time) (again time.Time, err error) {
	longest := time.Duration(-1)
	before := at
	for _, stamp := range stamps {
		if stamp.After(at) && stamp.Sub(before) > longest {
			longest, again = stamp.Sub(before), stamp
		}
		before = stamp
	}
	if longest < 0 {
		return again, errors.New("nothing came out again")
	}
	return again, nil
}

// stamps returns the timestamps of what is on a topic since an instant, by the partition, in order.
func (s *site) stamps(ctx context.Context, topic string, since time.Time) (map[int32][]time.Time, error) {
	client, err := s.kafka.Connect(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(since.UnixMilli())))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	stamps := map[int32][]time.Time{}
	for quiet := 0; quiet < 2; quiet++ { // what ends a transaction is not shown, so that nobody sees the very end
		polling, stop := context.WithTimeout(ctx, 2*time.Second)
		fetches := client.PollFetches(polling)
		stop()
		fetches.EachRecord(func(r *kgo.Record) {
			stamps[r.Partition] = append(stamps[r.Partition], r.Timestamp)
			quiet = -1
		})
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
	}
	return stamps, nil
}
