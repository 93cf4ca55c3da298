package service_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/service"
)

// journalFake is a broker in this process, and what nodes with a journal there are set to: a route to a callback lane
// and one with outcomes.
type journalFake struct {
	*testing.T

	cluster  *kfake.Cluster
	flags    map[string]string
	sessions chan time.Duration // that members have asked of the group
}

func newJournalFake(t *testing.T) *journalFake {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	f := &journalFake{t, cluster, map[string]string{
		"brokers": cluster.ListenAddrs()[0], "store": "journal:j", "data-dir": t.TempDir(), "create-topics": "true",
		"create-partitions": "1", "migrate": "true", "group": "group", "input-topic": "in",
		"output-topic": "http:hook", "outcome-topic": "outcomes",
	}, make(chan time.Duration, 100)}
	cluster.ControlKey(int16(kmsg.JoinGroup), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		join := request.(*kmsg.JoinGroupRequest)
		f.sessions <- time.Duration(join.SessionTimeoutMillis) * time.Millisecond
		return nil, nil, false
	})
	return f
}

// run runs a node until it is stopped.
func (f *journalFake) run() (stop func()) {
	f.Helper()
	values := map[string]service.Value{}
	for name, text := range f.flags {
		values[name] = service.FlagValue(name, text)
	}
	settings, err := service.Read(service.Run, values, nil)
	if err != nil {
		f.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		f.Fatal(err)
	}
	s, err := service.Open(f.Context(), config, service.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			f.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	f.Cleanup(stop)
	return stop
}

// A node says to the owner of a journal how far ahead messages are claimed. What its former owner can have claimed, by
// a timing advance of ten seconds, is too late to be cancelled when the next one owns the partition. It once was
// cancelled, and its request was made all the same.
func TestJournalKnowsHowFarAheadNodesClaim(t *testing.T) {
	t.Parallel()
	f := newJournalFake(t)
	f.flags["timing-advance"] = "10s"
	client, err := kgo.NewClient(kgo.SeedBrokers(f.flags["brokers"]), kgo.ConsumeTopics("outcomes"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	id := uuid.NewString()
	tell := func(headers ...kgo.RecordHeader) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		headers = append(headers, kgo.RecordHeader{Key: node.HeaderID, Value: []byte(id)})
		record := &kgo.Record{Topic: "in", Key: []byte(id), Headers: headers}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for ctx.Err() == nil {
			for _, r := range client.PollFetches(ctx).Records() {
				for _, h := range r.Headers {
					if h.Key == node.HeaderOutcome {
						return string(h.Value)
					}
				}
			}
		}
		t.Fatal("there is no outcome within a minute")
		return ""
	}

	stop := f.run()
	// That is later than 10 s from the takeover on, which is for clocks that differ, and earlier than 20 s from it on.
	due := time.Now().Add(19 * time.Second).UTC().Format(time.RFC3339Nano)
	if got := tell(kgo.RecordHeader{Key: node.HeaderDeadline, Value: []byte(due)},
		kgo.RecordHeader{Key: node.HeaderURL, Value: []byte("https://nobody.invalid/")},
		kgo.RecordHeader{Key: node.HeaderConfirm, Value: []byte("true")}); got != "scheduled" {
		t.Fatalf("the message is %s", got)
	}
	stop()
	f.run()
	if got := tell(kgo.RecordHeader{Key: node.HeaderAction, Value: []byte("cancel")}); got != "too_late" {
		t.Errorf("what may have been claimed by the owner before is %s", got)
	}
}

// The time that somebody has set for a session is what a node asks of its consumer group.
func TestSessionTimeoutIsAskedFor(t *testing.T) {
	t.Parallel()
	f := newJournalFake(t)
	f.flags["session-timeout"] = "13s"
	f.run()
	select {
	case asked := <-f.sessions:
		if asked != 13*time.Second {
			t.Errorf("it asks for %v", asked)
		}
	case <-time.After(time.Minute):
		t.Error("it has not joined its group within a minute")
	}
}
