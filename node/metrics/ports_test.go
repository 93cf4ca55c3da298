package metrics_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/clock/system"
	"chronos/node/metrics"
)

// busy is a store that answers everything but how many lanes there are.
type busy struct{ node.Store }

func (busy) Expired(context.Context, int) ([]node.Claim, error) { return nil, nil }

func (busy) Parts(context.Context) ([]node.Part, error) { return nil, errors.New("it took too long") }

// TestLookForLanesIsNoOutage has a look for lanes given up, as it is where there are many dead entries: the store is
// not away, and the node is as ready as before.
func TestLookForLanesIsNoOutage(t *testing.T) {
	m := metrics.New(aConfig(), "v")
	store := m.Ports(node.Ports{Clock: system.New(), Store: busy{}}).Store
	_, err := store.Expired(t.Context(), 1)
	_, failed := store.Parts(t.Context())
	if failing := m.Failing(node.PortStore); err != nil || failed == nil || len(failing) > 0 {
		t.Errorf("%v, %v: %+v", err, failed, failing)
	}
	if total(t, m, "chronos_port_errors_total") != 1 {
		t.Error("it is not counted")
	}
}

// TestThrottledIsCounted has brokers say how long a client is to wait.
func TestThrottledIsCounted(t *testing.T) {
	m := metrics.New(aConfig(), "v")
	for _, wait := range []time.Duration{time.Second, 500 * time.Millisecond} {
		m.Kafka("sink").(kgo.HookBrokerThrottle).OnBrokerThrottle(kgo.BrokerMetadata{}, wait, true)
	}
	if got := total(t, m, "chronos_throttled_seconds_total"); got != 1.5 {
		t.Errorf("%v seconds are counted, want 1.5", got)
	}
}
