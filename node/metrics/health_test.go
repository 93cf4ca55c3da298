package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/clock/system"
	"chronos/node/metrics"
	"chronos/node/store/outlook"
)

// denied is a store that takes nothing in while it says why, and does everything else.
type denied struct {
	node.Store

	why error
}

func (d *denied) Take(_ context.Context, request node.TakeRequest) (node.TakeResult, error) {
	positions := make([]node.Position, len(request.From))
	for i := range request.From {
		positions[i] = node.Position{Offset: int64(len(request.Items))}
	}
	return node.TakeResult{Taken: len(request.Items), Positions: positions}, d.why
}

func (d *denied) Positions(_ context.Context, places []node.Place) ([]node.Position, node.State, error) {
	return make([]node.Position, len(places)), node.State{}, nil
}

func (d *denied) Claim(context.Context, node.ClaimRequest) (node.ClaimResult, error) {
	return node.ClaimResult{}, nil
}

// failingCalls returns the calls of the store that fail, in words.
func failingCalls(m *metrics.Metrics) (calls string) {
	for _, o := range m.Failing(node.PortStore) {
		calls += fmt.Sprintf("%s for %v: %v;", o.Call, time.Since(o.Since), o.Err)
	}
	return calls
}

// Goal: each call of the store is judged by itself: one that fails is failing until it has gone well, whatever others
// do. Method: a store that refuses takes, and goes on doing the rest, as a full disk has it.
func TestEachCallIsJudgedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &denied{why: errors.New("no space")}
		m := metrics.New(aConfig(), "v")
		observed := m.Ports(node.Ports{Clock: system.New(), Store: store}).Store
		for range 9 {
			_, _ = observed.Take(t.Context(), node.TakeRequest{})
			_, _ = observed.Claim(t.Context(), node.ClaimRequest{})
			_, _, _ = observed.Positions(t.Context(), nil)
			<-time.After(10 * time.Second)
		}
		if got := failingCalls(m); got != "take for 1m30s: no space;" {
			t.Errorf("failing are %q", got)
		}
		seconds := map[string]float64{}
		for _, one := range gather(t, m)["chronos_operation_failing_seconds"].GetMetric() {
			seconds[one.GetLabel()[0].GetValue()] = one.GetGauge().GetValue()
		}
		if len(seconds) != 2 || seconds["take"] != 90 || seconds["claim"] != 0 {
			t.Errorf("the metric says %v", seconds)
		}
		store.why = nil
		_, _ = observed.Take(t.Context(), node.TakeRequest{})
		if got := failingCalls(m); got != "" {
			t.Errorf("failing are %q after it has gone well", got)
		}
	})
}

// input is a source that gives what it is told to.
type input struct {
	node.Source

	batch node.Batch
}

func (i *input) Poll(context.Context) (node.Batch, error) { return i.batch, nil }
func (i *input) Leave(context.Context) error              { return nil }

// Goal: how long a record has waited to be taken in is told until it has been, whatever the node gives up meanwhile; a
// take that fails goes on failing as long. Method: a node leaves its group since takes fail, and comes back; then
// another one has gone on.
func TestIntakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		partition := node.Partition{Topic: "in", TopicID: uuid.UUID{1}, Number: 3}
		from := []node.Place{{Partition: partition}}
		store, source := &denied{}, &input{}
		m := metrics.New(aConfig(), "v")
		ports := m.Ports(node.Ports{Clock: system.New(), Store: store, Source: source})
		poll := func(batch node.Batch) { source.batch = batch; _, _ = ports.Source.Poll(t.Context()) }
		waits := func(want time.Duration) {
			t.Helper()
			all := m.Intakes()
			got := time.Duration(0)
			if len(all) == 1 && !all[0].Since.IsZero() {
				got = time.Since(all[0].Since)
			}
			if got != want {
				t.Fatalf("it waits for %v, want %v: %+v", got, want, all)
			}
		}
		assigned := node.Batch{Assigned: []node.Assignment{{Extent: node.Extent{Partition: partition}}}}
		poll(assigned)
		waits(0)
		poll(node.Batch{Records: []node.Record{{Topic: "in", Partition: 3, Offset: 0}}})
		<-time.After(20 * time.Second)
		waits(20 * time.Second)
		_, _ = ports.Store.Take(t.Context(), node.TakeRequest{From: from, Items: make([]node.Item, 1)})
		waits(0)

		poll(node.Batch{Records: []node.Record{{Topic: "in", Partition: 3, Offset: 1}}})
		store.why = errors.New("denied")
		for range 5 {
			_, _ = ports.Store.Take(t.Context(), node.TakeRequest{From: from, Items: make([]node.Item, 2)})
			<-time.After(10 * time.Second)
			_ = ports.Source.Leave(t.Context())
			<-time.After(10 * time.Second)
			poll(assigned)
		}
		waits(100 * time.Second)
		_ = ports.Source.Leave(t.Context())
		<-time.After(time.Hour)
		waits(time.Hour + 100*time.Second)
		if got := failingCalls(m); got != "take for 1h1m40s: denied;" {
			t.Errorf("failing are %q, while a record waits", got)
		}
		sampler := metrics.Sampler{
			Metrics: m, Store: outlooks{},
			Ends: func(context.Context) ([]node.Extent, error) { return nil, nil },
			Places: func(context.Context) ([]node.Place, error) {
				return []node.Place{{Partition: partition, Position: node.Position{Offset: 2}}}, nil
			},
		}
		sampler.Sample(t.Context())
		if all := m.Intakes(); len(all) != 0 || failingCalls(m) != "" {
			t.Errorf("another node has taken it in, and this one says %+v, %q", all, failingCalls(m))
		}
	})
}

// outlooks sees nothing.
type outlooks struct{}

func (outlooks) Outlook(context.Context, outlook.Request) (outlook.Outlook, error) {
	return outlook.Outlook{}, nil
}
