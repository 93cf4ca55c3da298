package service_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node/service"
)

// The time that somebody has set for a session is what a node asks of its consumer group.
func TestSessionTimeoutIsAskedFor(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	asked := make(chan time.Duration, 1)
	cluster.ControlKey(int16(kmsg.JoinGroup), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		join := request.(*kmsg.JoinGroupRequest)
		select {
		case asked <- time.Duration(join.SessionTimeoutMillis) * time.Millisecond:
		default:
		}
		return nil, nil, false
	})
	values := map[string]service.Value{}
	for name, text := range map[string]string{
		"brokers": cluster.ListenAddrs()[0], "store": "journal:j", "data-dir": t.TempDir(), "create-topics": "true",
		"create-partitions": "1", "migrate": "true", "input-topic": "in", "output-topic": "out",
		"session-timeout": "13s",
	} {
		values[name] = service.FlagValue(name, text)
	}
	settings, err := service.Read(service.Run, values, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	s, err := service.Open(t.Context(), config, service.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case session := <-asked:
		if session != 13*time.Second {
			t.Errorf("it asks for %v", session)
		}
	case <-time.After(time.Minute):
		t.Error("it has not joined its group within a minute")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
