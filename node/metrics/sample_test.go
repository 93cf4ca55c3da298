package metrics_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/metrics"
	"chronos/node/store/outlook"
)

// counted is a store that knows how many messages wait on each lane.
type counted map[string]outlook.Lane

func (c counted) Outlook(_ context.Context, request outlook.Request) (seen outlook.Outlook, err error) {
	for _, name := range request.Lanes {
		lane := c[name]
		lane.Name, lane.Within = name, make([]outlook.Count, len(outlook.Horizons()))
		lane.Within[1] = lane.Waiting
		seen.Lanes = append(seen.Lanes, lane)
	}
	return seen, nil
}

// Goal: what is parked is in the metrics by lane and part, of lanes that no route names as one, and gone from them when
// it is gone; there are no more series of a lane than an outlook has parts. Method: samples of a store.
func TestParkedIsSampled(t *testing.T) {
	t.Parallel()
	m, config := metrics.New(aConfig(), "v"), aConfig()
	lane := config.Lanes()[0]
	waits := func(n int, names ...string) (parked []outlook.Parked) {
		for _, name := range names {
			parked = append(parked, outlook.Parked{Part: name, Waiting: outlook.Count{N: n}})
		}
		return parked
	}
	store := counted{}
	s := &metrics.Sampler{
		Metrics: m, Store: store, Lanes: []string{lane},
		Found: func(context.Context) ([]string, error) { return []string{"x", "y"}, nil },
	}
	check := func(want map[string]float64) {
		t.Helper()
		s.Sample(t.Context())
		got := map[string]float64{}
		for _, one := range gather(t, m)["chronos_parked_messages"].GetMetric() {
			got[one.GetLabel()[0].GetValue()+" "+one.GetLabel()[1].GetValue()] = one.GetGauge().GetValue()
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v are parked, want %v", got, want)
		}
	}
	store[lane] = outlook.Lane{Parked: waits(3, "1", "2")}
	store["x"], store["y"] = outlook.Lane{Parked: waits(4, "1")}, outlook.Lane{Parked: waits(5, "1", "7")}
	check(map[string]float64{lane + " 1": 3, lane + " 2": 3, lane + " other": 0, "other other": 14})
	store[lane], store["y"] = outlook.Lane{Parked: waits(1, "2")}, outlook.Lane{}
	check(map[string]float64{lane + " 2": 1, lane + " other": 0, "other other": 4})
	var many []string
	want := map[string]float64{lane + " other": 4, "other other": 0}
	for i := range outlook.MaxParked + 2 {
		many = append(many, fmt.Sprintf("%03d", i))
		if i < outlook.MaxParked {
			want[lane+" "+many[i]] = 2
		}
	}
	store[lane], store["x"] = outlook.Lane{Parked: waits(2, many...)}, outlook.Lane{}
	check(want)
}

// Goal: what waits on lanes that no route names is in the metrics, as one lane, and gone from them when it is gone.
// Method: samples of a store with two such lanes, with one, and with none.
func TestFoundLanesAreSampled(t *testing.T) {
	t.Parallel()
	m, now := metrics.New(aConfig(), "v"), time.Now()
	config := aConfig()
	lane := config.Lanes()[0]
	store := counted{
		lane: {Waiting: outlook.Count{N: 5}},
		"x":  {Waiting: outlook.Count{N: 3}, Overdue: outlook.Count{N: 2}, Oldest: now.Add(-time.Minute)},
		"y": {
			Waiting: outlook.Count{N: 20_000, Estimated: true}, Claimed: outlook.Count{N: 1},
			Overdue: outlook.Count{N: 4}, Oldest: now.Add(-time.Hour), Next: now.Add(time.Hour),
		},
	}
	m.Schedule(func() ([]node.Held, time.Duration) {
		return []node.Held{
			{Lane: lane, Messages: 1, MaxMessages: 4, MaxBytes: 100},
			{Lane: "x", Messages: 1, MaxMessages: 4, MaxBytes: 100},
			{Lane: "y", Messages: 2, Bytes: 75, MaxMessages: 4, MaxBytes: 100},
		}, 0
	})
	var found []string
	var told outlook.Outlook
	s := &metrics.Sampler{
		Metrics: m, Store: store, Lanes: []string{lane},
		Found: func(context.Context) ([]string, error) { return found, nil },
		Seen:  func(seen outlook.Outlook, _ error) { told = seen },
	}
	value := func(name, lane string, labels ...string) float64 {
		sum := 0.0
		for _, one := range gather(t, m)[name].GetMetric() {
			matching := 0
			for _, l := range one.GetLabel() {
				if l.GetValue() == lane || slices.Contains(labels, l.GetValue()) {
					matching++
				}
			}
			if matching == 1+len(labels) {
				sum += one.GetGauge().GetValue()
			}
		}
		return sum
	}
	for _, c := range []struct {
		found                              []string
		waiting, claimed, overdue, guessed float64
		oldest                             time.Duration
	}{
		{[]string{"x", "y"}, 20_003, 1, 6, 1, time.Hour},
		{[]string{"x"}, 3, 0, 2, 0, time.Minute},
		{nil, 0, 0, 0, 0, 0},
	} {
		found = c.found
		s.Sample(t.Context())
		if len(told.Lanes) != 1+len(found) {
			t.Errorf("the log is told of %d lanes, want each of %v beside %s", len(told.Lanes), found, lane)
		}
		oldest := time.Duration(value("chronos_oldest_overdue_seconds", "other") * float64(time.Second))
		if got := value("chronos_waiting", "other"); got != c.waiting ||
			value("chronos_upcoming", "other", "10m") != c.waiting || value("chronos_claimed", "other") != c.claimed ||
			value("chronos_overdue", "other") != c.overdue || value("chronos_counts_estimated", "other") != c.guessed ||
			oldest < c.oldest || oldest > c.oldest+time.Minute/2 {
			t.Errorf("with %v %v wait, the oldest for %v", found, got, oldest)
		}
		if value("chronos_schedule_messages", "other") != 3 || value("chronos_schedule_fill_ratio", "other") != 0.75 {
			t.Error("what the schedule holds of such lanes is not added up")
		}
		if got := value("chronos_waiting", lane); got != 5 {
			t.Errorf("%v wait on %s", got, lane)
		}
	}
}
