package main_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: beside an output partition without a leader the messages of the others come out; its own are parked, which
// commands show, and come out soon after it is back. Method: a whole node, on brokers of which one partition
// is taken away.
func TestNodeParks(t *testing.T) {
	t.Parallel()
	broker, address := cluster(t, "")
	c := client(t, address)
	defer c.Close()
	admin := kadm.NewClient(c)
	for topic, partitions := range map[string]int32{"chronos.in": 1, "chronos.out": 3, "probe": 3} {
		if _, err := admin.CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	var dead, alive []*kgo.Record // submissions, by the partition that they go to
	for i := range 30 {
		key := fmt.Sprint(i)
		probe := &kgo.Record{Topic: "probe", Key: []byte(key)}
		if err := c.ProduceSync(t.Context(), probe).FirstErr(); err != nil {
			t.Fatal(err)
		}
		s := submission("id"+key, time.Now().Add(time.Second), []byte(key))
		s.Key = []byte(key)
		if probe.Partition == 1 {
			dead = append(dead, s)
		} else {
			alive = append(alive, s)
		}
	}
	fault := broker.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Metadata, kmsg.Produce, kmsg.ListOffsets}, Topic: "chronos.out", Partitions: []int32{1},
		Err: kerr.LeaderNotAvailable, Count: -1,
	})
	p := start(t, "run", "--brokers", address, "--store", "journal:chronos.journal", "--data-dir", t.TempDir(),
		"--migrate", "--admin-listen", "127.0.0.1:0")
	url := p.stderr.await(t, `http://127\.0\.0\.1:\d+`, 1)[0]
	p.stderr.await(t, `"msg":"started"|msg=started`, 1)
	produce(t, address, append(dead, alive...)...)
	shows := func(want string, words ...string) {
		t.Helper()
		eventually(t, func() string {
			got := run(t, "", append(words, "--admin", url)...)
			if regexp.MustCompile(want).MatchString(got.stdout) {
				return ""
			}
			return fmt.Sprintf("%s: exit code %d, %s%s, want %s", words, got.code, got.stdout, got.stderr, want)
		})
	}
	shows(fmt.Sprintf(`chronos\.out +%d +\d+ .* %[1]d parked: partition 1 does not answer`, len(dead)), "count")
	shows(fmt.Sprintf(`\n%d shown, `, len(dead)), "list", "--state", "parked")
	shows(`parked +partition 1 of chronos\.out does not answer`, "get", "id"+string(dead[0].Key))

	fault.Remove()
	back := time.Now()
	reader := client(t, address, kgo.ConsumeTopics("chronos.out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	came := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(came) < len(dead)+len(alive) && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { came[string(r.Value)]++ })
	}
	if took := time.Since(back); took > 15*time.Second { // 6 s, and time for a machine that is busy
		t.Errorf("what was parked took %v", took)
	}
	for _, s := range slices.Concat(dead, alive) {
		if came[string(s.Value)] != 1 {
			t.Errorf("message %s came %d times", s.Value, came[string(s.Value)])
		}
	}
	shows(`chronos\.out +0 `, "count")
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}
