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
		Open: func(t testing.TB, o brokertest.Options) brokertest.Broker {
			t.Helper()
			b, err := kafka.New(kafka.Config{
				Brokers:        brokers,
				Group:          o.Group,
				Inputs:         o.Inputs,
				PublishTimeout: o.PublishTimeout,
				SessionTimeout: session,
				Dialer:         o.Dial,
			})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	}
}
