package metrics_test

import (
	"context"
	"testing"

	"chronos/node"
	"chronos/node/clock/system"
	"chronos/node/metrics"
)

// Takeovers of a journal are counted by how they ended, and what is left to read is shown.
func TestJournal(t *testing.T) {
	t.Parallel()
	m := metrics.New(node.Default(), "test")
	if _, shown := gather(t, m)["chronos_journal_takeovers_total"]; !shown {
		t.Error("takeovers do not begin at zero")
	}
	m.Owned(true)
	m.Owned(false)
	m.Owned(true)
	m.ReplayLeft(17)
	m.Standbys(3, 2, 23)
	for name, labels := range map[string]map[string]float64{
		"chronos_journal_takeovers_total": {"owned": 2, "failed": 1},
		"chronos_journal_standby_copies":  {"warm": 3, "cold": 2},
	} {
		for label, want := range labels {
			if got := value(t, m, name, label); got != want {
				t.Errorf("%s of %s is %v, want %v", name, label, got, want)
			}
		}
	}
	m.Unreadable(3)
	if got := value(t, m, "chronos_journal_unreadable"); got != 3 {
		t.Errorf("%v entries cannot be read, want 3", got)
	}
	if got := value(t, m, "chronos_journal_replay_left"); got != 17 {
		t.Errorf("what is left to read is %v", got)
	}
	if got := value(t, m, "chronos_journal_standby_behind"); got != 23 {
		t.Errorf("what standbys lack is %v", got)
	}
}

// settles is a node.Settling of which one call of two goes well.
type settles struct{ errs []error }

func (s *settles) Fire(context.Context, []node.Record, []node.Next) ([]node.Settled, []error) {
	return make([]node.Settled, len(s.errs)), s.errs
}

// A store that publishes is counted as a sink is: by the calls of which nothing came through.
func TestSettlingIsCounted(t *testing.T) {
	t.Parallel()
	m := metrics.New(node.Default(), "test")
	inner := &settles{}
	ports := m.Ports(node.Ports{Clock: system.New(), Settling: inner})
	for _, inner.errs = range [][]error{{nil, node.NotSent}, {node.NotSent}} {
		_, errs := ports.Settling.Fire(t.Context(), make([]node.Record, len(inner.errs)), nil)
		if len(errs) != len(inner.errs) {
			t.Errorf("the results are %v", errs)
		}
	}
	if got := value(t, m, "chronos_port_errors_total", "publish", "sink"); got != 1 {
		t.Errorf("%v calls have failed", got)
	}
	if got := value(t, m, "chronos_port_call_duration_seconds", "publish", "sink"); got != 2 {
		t.Errorf("%v calls were measured", got)
	}
}
