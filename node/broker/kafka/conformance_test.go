package kafka_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// The conformance suite on a fake cluster of three brokers, in this process.
func TestFake(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, fake(t))
}

// The conformance suite on a real Kafka.
func TestKafka(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, realKafka(t))
}

// fakeSession is how soon a fake cluster gives up a member that is silent: sooner than a real one can.
const fakeSession = 1500 * time.Millisecond

// fake returns a fake cluster, until the test ends.
func fake(t testing.TB) brokertest.Environment {
	t.Helper()
	cluster, _ := newFake(t)
	env := environment(t, cluster.ListenAddrs(), fakeSession)
	env.Fake = true
	return env
}

// realKafka returns the cluster that the environment names.
func realKafka(t testing.TB) brokertest.Environment {
	t.Helper()
	addresses := os.Getenv("CHRONOS_TEST_KAFKA")
	if addresses == "" {
		if testing.Short() {
			t.Skip("CHRONOS_TEST_KAFKA names no broker")
		}
		t.Fatal("CHRONOS_TEST_KAFKA names no broker: set it, or run make test")
	}
	return environment(t, strings.Split(addresses, ","), 0)
}

func environment(t testing.TB, brokers []string, session time.Duration) brokertest.Environment {
	return brokertest.Environment{
		Cluster: brokertest.NewCluster(t, kgo.SeedBrokers(brokers...)),
		OpenSource: func(t testing.TB, o brokertest.SourceOptions) brokertest.Source {
			t.Helper()
			source, err := kafka.NewSource(kafka.SourceConfig{
				Connection:     kafka.Connection{Brokers: brokers, Dialer: o.Dial},
				Group:          o.Group,
				Inputs:         o.Inputs,
				SessionTimeout: session,
			})
			if err != nil {
				t.Fatal(err)
			}
			return source
		},
		OpenSink: func(t testing.TB, o brokertest.SinkOptions) brokertest.Sink {
			t.Helper()
			sink, err := kafka.NewSink(kafka.SinkConfig{
				Connection:     kafka.Connection{Brokers: brokers, Dialer: o.Dial},
				PublishTimeout: o.PublishTimeout,
			})
			if err != nil {
				t.Fatal(err)
			}
			return sink
		},
	}
}
