package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	dto "github.com/prometheus/client_model/go"

	"chronos/node"
	"chronos/node/clock/system"
	"chronos/node/metrics"
	"chronos/node/queue"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
	"chronos/node/store/transfer"
)

// aConfig is the configuration of a node with one route.
func aConfig() node.Config {
	config := node.Default()
	config.Seed[0] = 1
	config.Routes = []node.Route{{Input: "in", Output: "out", DeadLetter: "dead"}}
	return config
}

// TestReference asks that docs/METRICS.md is what the table says. CHRONOS_UPDATE=1 writes it anew.
func TestReference(t *testing.T) {
	var page bytes.Buffer
	if err := metrics.WriteReference(&page); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("..", "..", "docs", "METRICS.md")
	if os.Getenv("CHRONOS_UPDATE") != "" {
		if err := os.WriteFile(name, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("docs/METRICS.md is out of date (%v): run CHRONOS_UPDATE=1 go test ./node/metrics", err)
	}
}

// Goal: every metric has one name, help in full sentences, a name as the conventions of Prometheus have it, and no
// label that could have many values. Method: a look at the table.
func TestTable(t *testing.T) {
	labels := []string{
		"lane", "result", "topic", "reason", "partition", "cause", "setting", "version", "goversion", "loop", "port",
		"call", "to", "state", "within", "permanent", "action", "outcome", "operation", "status", "class",
		"client", "tag", // of tags 101 at most
		"part", // 101 of a lane at most, see outlook.MaxParked
	}
	seen := map[string]bool{}
	for _, row := range metrics.Table() {
		switch {
		case seen[row.Name] || !strings.HasPrefix(row.Name, "chronos_"):
			t.Errorf("%s is there twice, or begins otherwise than it should", row.Name)
		case strings.HasSuffix(row.Name, "_total") != (row.Kind == metrics.Counter):
			t.Errorf("%s is a %s", row.Name, row.Kind)
		case !strings.HasSuffix(row.Help, ".") || row.Look != "" && !strings.HasSuffix(row.Look, "."):
			t.Errorf("the help of %s is no sentence", row.Name)
		case (row.Kind == metrics.Histogram) != (len(row.Buckets) > 0):
			t.Errorf("%s has %d buckets", row.Name, len(row.Buckets))
		}
		for _, label := range row.Labels {
			if !slices.Contains(labels, label) {
				t.Errorf("%s has the label %s: how many values does it have?", row.Name, label)
			}
		}
		seen[row.Name] = true
	}
	for _, name := range []string{"chronos_fired_total", "chronos_waiting", "chronos_lateness_seconds"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

// gather returns the metrics by name.
func gather(t *testing.T, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

// value returns the value of a counter or gauge, or the count of a histogram, with these values of its labels, in the
// order of their names; 0 if there is none.
func value(t *testing.T, m *metrics.Metrics, name string, labels ...string) float64 {
	t.Helper()
	family := gather(t, m)[name]
	for _, one := range family.GetMetric() {
		var have []string
		for _, pair := range one.GetLabel() {
			have = append(have, pair.GetValue())
		}
		if slices.Equal(have, labels) {
			return one.GetCounter().GetValue() + one.GetGauge().GetValue() +
				float64(one.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

// mover is what a store is moved by, and its queues are asked by, which no port has either.
type mover interface {
	transfer.Store
	queue.Store
}

// Goal: a store that is counted is the same store. Method: the conformance suite of stores, through the decorator.
func TestStoreIsAsItWas(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Instance {
		clock := storetest.NewClock()
		store := memory.New(clock.Now)
		m := metrics.New(aConfig(), "v")
		return storetest.Instance{
			Store: struct {
				node.Store
				node.Switches // which no port has
				mover
			}{m.Ports(node.Ports{Clock: system.New(), Store: store}).Store, store, store},
			Clock:   clock,
			Dump:    func(testing.TB) []memory.Row { return store.Dump() },
			Promote: func(testing.TB) { store.Promote() },
			Upgrade: func(testing.TB) { store.Upgrade() },
		}
	})
}

// fake is a port that answers as it is told, and sees what it is given.
type fake struct {
	err  error
	seen []any
}

var errFake = errors.New("fake")

func (f *fake) Bind(_ context.Context, r node.BindRequest) (node.Bound, error) {
	f.seen = append(f.seen, r)
	return node.Bound{Group: "g"}, f.err
}

func (f *fake) Positions(_ context.Context, r []node.Place) ([]node.Position, node.State, error) {
	f.seen = append(f.seen, r)
	return nil, node.State{Lineage: 3}, f.err
}

func (f *fake) Take(_ context.Context, r node.TakeRequest) (node.TakeResult, error) {
	f.seen = append(f.seen, r)
	return node.TakeResult{Taken: 7}, f.err
}

func (f *fake) CatchUp(_ context.Context, r node.CatchUpRequest) (node.State, error) {
	f.seen = append(f.seen, r)
	return node.State{Lineage: 3}, f.err
}

func (f *fake) Claim(_ context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
	f.seen = append(f.seen, r)
	return node.ClaimResult{Messages: make([]node.Ready, 2)}, f.err
}

func (f *fake) Settle(_ context.Context, next []node.Next) ([]node.Settled, error) {
	f.seen = append(f.seen, next)
	return []node.Settled{node.Rearmed}, f.err
}

func (f *fake) Parts(context.Context) ([]node.Part, error) {
	f.seen = append(f.seen, "parts")
	return make([]node.Part, 1), f.err
}

func (f *fake) Expired(_ context.Context, n int) ([]node.Claim, error) {
	f.seen = append(f.seen, n)
	return make([]node.Claim, 1), f.err
}

func (f *fake) Reset(_ context.Context, r []node.Release) ([]node.Settled, error) {
	f.seen = append(f.seen, r)
	return []node.Settled{node.Freed}, f.err
}

func (f *fake) Poll(context.Context) (node.Batch, error) {
	return node.Batch{Records: make([]node.Record, 2)}, f.err
}

func (f *fake) Pause([]node.Partition) {}
func (f *fake) Start(_ context.Context, r []node.Place) error {
	f.seen = append(f.seen, r)
	return f.err
}

func (f *fake) Commit(_ context.Context, r []node.Place) error {
	f.seen = append(f.seen, r)
	return f.err
}

func (f *fake) Extents(context.Context) ([]node.Extent, error) { return make([]node.Extent, 1), f.err }
func (f *fake) Leave(context.Context) error                    { return f.err }

func (f *fake) Publish(_ context.Context, r []node.Record) []error {
	f.seen = append(f.seen, r)
	return []error{f.err}
}

// Goal: every method of every port goes through with its arguments, its results and its error, and is counted. Method:
// all methods of the interfaces, by reflection, on ports that answer well and on ports that fail: a method that is
// added to a port and not to the decorator is found here.
func TestEveryCallIsCounted(t *testing.T) {
	t.Parallel()
	for _, failing := range []error{nil, errFake} {
		m := metrics.New(aConfig(), "v")
		inner := &fake{err: failing}
		direct := &fake{err: failing}
		ports := m.Ports(node.Ports{Clock: system.New(), Store: inner, Source: inner, Sink: inner})
		calls := 0
		for _, port := range []struct {
			name  node.Port
			is    reflect.Type
			value any
		}{
			{node.PortStore, reflect.TypeFor[node.Store](), ports.Store},
			{node.PortSource, reflect.TypeFor[node.Source](), ports.Source},
			{node.PortSink, reflect.TypeFor[node.Sink](), ports.Sink},
		} {
			for method := range port.is.Methods() {
				if method.Type.NumOut() == 0 {
					continue // it calls nobody, and so cannot fail (Source.Pause)
				}
				args := []reflect.Value{reflect.ValueOf(t.Context())}
				for i := 1; i < method.Type.NumIn(); i++ {
					args = append(args, filled(method.Type.In(i)))
				}
				before := total(t, m, "chronos_port_call_duration_seconds")
				errorsBefore := total(t, m, "chronos_port_errors_total")
				got := reflect.ValueOf(port.value).MethodByName(method.Name).Call(args)
				want := reflect.ValueOf(direct).MethodByName(method.Name).Call(args)
				for i := range want {
					if !reflect.DeepEqual(got[i].Interface(), want[i].Interface()) {
						t.Errorf("%s.%s returned %v, want %v", port.name, method.Name, got[i], want[i])
					}
				}
				if total(t, m, "chronos_port_call_duration_seconds") != before+1 {
					t.Errorf("%s.%s is not counted: package metrics lacks it", port.name, method.Name)
				}
				if more := total(t, m, "chronos_port_errors_total") - errorsBefore; (more == 1) != (failing != nil) {
					t.Errorf("%s.%s: %v errors are counted, and it returned %v", port.name, method.Name, more, failing)
				}
				for _, o := range m.Failing(port.name) {
					if failing == nil || !errors.Is(o.Err, failing) {
						t.Errorf("after %s.%s a call is %+v", port.name, method.Name, o)
					}
				}
				calls++
			}
		}
		if !reflect.DeepEqual(inner.seen, direct.seen) || calls < 14 {
			t.Errorf("%d calls; the ports have seen %v, want %v", calls, inner.seen, direct.seen)
		}
	}
}

// filled returns a value of a type that is not its zero value, where that matters.
func filled(of reflect.Type) reflect.Value {
	value := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Slice:
		value.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.Int:
		value.SetInt(17)
	default:
	}
	return value
}

// total adds up all series of a metric.
func total(t *testing.T, m *metrics.Metrics, name string) (sum float64) {
	t.Helper()
	for _, one := range gather(t, m)[name].GetMetric() {
		sum += one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
	}
	return sum
}

// Goal: each event moves the metrics that are about it. Method: one event of each kind.
func TestEvents(t *testing.T) {
	t.Parallel()
	m := metrics.New(aConfig(), "v")
	now := time.Now()
	messages := func(lane string, n int) []node.Message {
		all := make([]node.Message, n)
		for i := range all {
			all[i] = node.Message{Lane: lane, Incarnation: uuid.New(), Deadline: now.Add(-time.Second)}
		}
		return all
	}
	claims := func(lane string, n int) []node.Claim {
		return slices.Repeat([]node.Claim{{Ref: node.Ref{Lane: lane}}}, n)
	}
	future := messages("out", 4)
	for i := range future {
		future[i].Deadline = now.Add(time.Hour)
	}
	late := messages("out", 2)
	for _, event := range []node.Event{
		node.Started{},
		node.Polled{Records: 9},
		node.Enqueued{Messages: future},
		node.Enqueued{Messages: late},
		node.Ignored{Messages: messages("out", 1)},
		node.Fired{Messages: late, At: now},
		node.Fired{Messages: messages("out", 3), At: now},
		node.Deleted{Refs: []node.Ref{{Lane: "out"}}},
		node.SkippedTaken{Records: 5},
		node.RecordsLost{Losses: []node.Loss{{Partition: node.Partition{Topic: "in"}, From: 3, To: 10}}},
		node.Rejected{Record: node.Record{Topic: "in"}, Reason: node.MissingID},
		node.DeadLettered{Messages: messages("dead", 1)},
		node.DeadLettered{Messages: []node.Message{{Lane: "out", NotAfter: now.Add(-time.Second)}}},
		node.DeadLettered{Messages: []node.Message{{Lane: "out", NotAfter: now.Add(time.Hour)}}},
		node.Lapsed{Messages: messages("out", 2)},
		node.PassedOver{Next: []node.Next{
			{Of: node.Ref{Lane: "out"}, Passed: 5}, {Of: node.Ref{Lane: "out"}, Passed: 3000000000},
		}},
		node.Decided{Decisions: []node.Decision{
			{MessageID: node.MessageID{Lane: "out"}, Action: node.Cancel, Outcome: node.TooLate},
			{MessageID: node.MessageID{Lane: "out"}, Action: node.Cancel, Outcome: node.TooLate},
			{MessageID: node.MessageID{Lane: "out"}, Action: node.FireNow, Outcome: node.FiredNow},
		}},
		node.Unpublished{Messages: messages("out", 2), Err: node.TopicMissing, Permanent: true},
		node.Unpublished{Messages: messages("out", 3), Err: errFake},
		node.Suspected{Claims: append(claims("out", 2), claims("of another configuration", 1)...)},
		node.Abandoned{Claims: claims("out", 4)},
		node.Released{Claims: claims("out", 5)},
		node.Missing{Refs: make([]node.Ref, 6)},
		node.Missing{Refs: make([]node.Ref, 6), Repeated: true},
		node.RowsLocked{Messages: make([]node.MessageID, 8), Blocked: make([]node.Place, 2)},
		node.LeftBehind{Fired: 7},
		node.SettingsDiffer{Setting: "HoldTime"},
		node.LeftGroup{},
		node.CatchingUp{},
	} {
		m.Observe(event)
	}
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{9, "chronos_polled_total", nil},
		{6, "chronos_intake_total", []string{"out", "scheduled"}},
		{1, "chronos_intake_total", []string{"out", "duplicate"}},
		{2, "chronos_late_arrivals_total", []string{"out"}},
		{5, "chronos_fired_total", []string{"out"}},
		{5, "chronos_lateness_seconds", []string{"out"}},
		{1, "chronos_settled_total", []string{"out"}},
		{5, "chronos_skipped_total", nil},
		{7, "chronos_records_lost_total", []string{"in"}},
		{1, "chronos_rejected_total", []string{"missing_id", "in"}},
		{1, "chronos_dead_lettered_total", []string{"dead"}},
		{2, "chronos_dead_lettered_total", []string{"out"}},
		{3, "chronos_expired_total", []string{"out"}},
		{3000000005, "chronos_passed_over_total", []string{"out"}},
		{2, "chronos_instructions_total", []string{"cancel", "out", "too_late"}},
		{1, "chronos_instructions_total", []string{"fire", "out", "fired"}},
		{2, "chronos_unpublished_total", []string{"out", "true"}},
		{3, "chronos_unpublished_total", []string{"out", "false"}},
		{8, "chronos_locked_total", []string{"message"}},
		{2, "chronos_locked_total", []string{"record"}},
		{1, "chronos_suspicions_total", nil},
		{2, "chronos_recovered_total", []string{"out"}},
		{1, "chronos_recovered_total", []string{"other"}},
		{3, "chronos_duplicate_risk_total", []string{"recovered"}},
		{6, "chronos_duplicate_risk_total", []string{"gone_already"}},
		{3, "chronos_duplicate_risk_total", []string{"unknown_outcome"}},
		{7, "chronos_duplicate_risk_total", []string{"left_behind"}},
		{4, "chronos_abandoned_total", []string{"out"}},
		{5, "chronos_released_total", []string{"out"}},
		{1, "chronos_settings_differ_total", []string{"HoldTime"}},
		{1, "chronos_group_left_total", nil},
		{1, "chronos_catching_up", nil},
	} {
		if got := value(t, m, want.name, want.labels...); got != want.value {
			t.Errorf("%s%v is %v, want %v", want.name, want.labels, got, want.value)
		}
	}
	histogram := gather(t, m)["chronos_lateness_seconds"]
	for _, one := range histogram.GetMetric() {
		h := one.GetHistogram()
		if one.GetLabel()[0].GetValue() != "out" {
			continue
		}
		// Two came late themselves, and came out at once; three are a second late.
		if sum := h.GetSampleSum(); sum > 3.1 || sum < 2.9 || h.GetSchema() == 0 || len(h.GetBucket()) < 10 {
			t.Errorf("the lateness is %v in all, with schema %d and %d classic buckets",
				sum, h.GetSchema(), len(h.GetBucket()))
		}
	}
}

// Goal: positions, lag and partitions are those of the partitions that the node reads, and no others. Method: two
// partitions come, are taken in, and one goes.
func TestPartitions(t *testing.T) {
	t.Parallel()
	m := metrics.New(aConfig(), "v")
	one, two := node.Partition{Topic: "in"}, node.Partition{Topic: "in", Number: 1}
	source := &batches{all: []node.Batch{
		{Assigned: []node.Assignment{
			{Extent: node.Extent{Partition: one, First: 2, End: 10}}, {Extent: node.Extent{Partition: two, End: 5}},
		}},
		{Revoked: []node.Partition{one}},
	}}
	store := &taken{position: node.Position{Offset: 4}}
	ports := m.Ports(node.Ports{Clock: system.New(), Store: store, Source: source})
	if _, err := ports.Source.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := ports.Store.Take(t.Context(), node.TakeRequest{From: []node.Place{{Partition: one}}}); err != nil {
		t.Fatal(err)
	}
	expect := func(want map[string]float64) {
		t.Helper()
		for _, key := range slices.Sorted(maps.Keys(want)) {
			name, partition, _ := strings.Cut(key, " ")
			labels := []string{partition, "in"}
			if partition == "" {
				labels = nil
			}
			if got := value(t, m, name, labels...); got != want[key] {
				t.Errorf("%s is %v, want %v", key, got, want[key])
			}
		}
	}
	expect(map[string]float64{
		"chronos_partitions": 2, "chronos_position 0": 4, "chronos_lag_records 0": 6, "chronos_position 1": 0,
		"chronos_lag_records 1": 5,
	})
	if _, err := ports.Source.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(map[string]float64{
		"chronos_partitions": 1, "chronos_position 0": 0, "chronos_lag_records 0": 0, "chronos_lag_records 1": 5,
	})
}

type batches struct {
	fake

	all []node.Batch
}

func (b *batches) Poll(context.Context) (node.Batch, error) {
	next := b.all[0]
	b.all = b.all[1:]
	return next, nil
}

type taken struct {
	fake

	position node.Position
}

func (s *taken) Take(_ context.Context, r node.TakeRequest) (node.TakeResult, error) {
	return node.TakeResult{Positions: []node.Position{s.position}, Refused: make([]bool, len(r.From))}, nil
}

// stuckSink never returns from a publish before it is told to.
type stuckSink struct{ released chan struct{} }

func (s *stuckSink) Publish(_ context.Context, records []node.Record) []error {
	<-s.released
	return make([]error, len(records))
}

// Goal: a loop that does not return from a call is found stuck, one that rests for long is not, and neither is any
// after a process was stopped for an hour. Method: loops in a bubble, whose time passes at once.
func TestLoops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(aConfig(), "v")
		sink := &stuckSink{make(chan struct{})}
		ports := m.Ports(node.Ports{Clock: system.New(), Store: &fake{}, Source: &fake{}, Sink: sink})
		counting, stopCounting := context.WithCancel(t.Context())
		go m.Loops().Run(counting)
		tasks := m.Loops().Tasks(node.Goroutines())
		tasks.Go(node.Fire, func(ctx context.Context) { ports.Sink.Publish(ctx, nil) })
		tasks.Go(node.Settle, func(ctx context.Context) { ports.Clock.Bell().Sleep(ctx, time.Hour) })
		tasks.Go(node.Recover, func(ctx context.Context) {
			for ctx.Err() == nil {
				_, _ = ports.Store.Expired(ctx, 1)
				ports.Clock.Sleep(ctx, time.Second)
			}
		})
		stuck := func() (names []string) {
			for _, state := range m.Loops().States() {
				if state.Stuck {
					names = append(names, state.Loop)
				}
			}
			return names
		}
		synctest.Wait()
		if states := m.Loops().States(); len(states) != 3 || len(stuck()) != 0 {
			t.Errorf("the loops are %+v", states)
		}
		<-time.After(50 * time.Second)
		if names := stuck(); len(names) != 0 {
			t.Errorf("%v are stuck after 50 s: a publish may take 2 s, and is given a minute", names)
		}
		<-time.After(20 * time.Second)
		if names := stuck(); !slices.Equal(names, []string{"fire"}) {
			t.Errorf("%v are stuck, want the one that publishes", names)
		}
		turns := value(t, m, "chronos_loop_turns_total", "recover")
		overruns := value(t, m, "chronos_loop_overruns_total", "recover")
		if turns < 100 || overruns != 0 {
			t.Errorf("%v turns and %v overruns of the loop that works are counted", turns, overruns)
		}
		close(sink.released)
		synctest.Wait()
		if names := stuck(); len(names) != 0 {
			t.Errorf("%v are stuck after all have gone on", names)
		}
		tasks.Stop()
		if states := m.Loops().States(); len(states) != 0 {
			t.Errorf("after the end the loops are %+v", states)
		}
		stopCounting()
	})
}

// Goal: a process that was stopped for an hour and goes on is not found stuck, though its loops were in a call all that
// time. Method: an hour in which the goroutine that counts the seconds does not run, either.
func TestStoppedProcessIsNotStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(aConfig(), "v")
		sink := &stuckSink{make(chan struct{})}
		ports := m.Ports(node.Ports{Clock: system.New(), Sink: sink})
		tasks := m.Loops().Tasks(node.Goroutines())
		tasks.Go(node.Fire, func(ctx context.Context) { ports.Sink.Publish(ctx, nil) })
		<-time.After(time.Hour)
		counting, stop := context.WithCancel(t.Context())
		go m.Loops().Run(counting)
		<-time.After(10 * time.Second)
		for _, state := range m.Loops().States() {
			if state.Stuck {
				t.Errorf("%s is stuck: %s", state.Loop, state.Detail)
			}
		}
		stop()
		close(sink.released)
		tasks.Stop()
	})
}

// BenchmarkFired is what a fired message costs beside its publish: the events of its life.
func BenchmarkFired(b *testing.B) {
	m := metrics.New(aConfig(), "v")
	messages := make([]node.Message, 500)
	refs := make([]node.Ref, 500)
	for i := range messages {
		messages[i] = node.Message{Lane: "out", Incarnation: uuid.New(), Deadline: time.Now().Add(time.Minute)}
		refs[i] = messages[i].Ref()
	}
	for b.Loop() {
		m.Observe(node.Enqueued{Messages: messages})
		m.Observe(node.Fired{Messages: messages, At: time.Now()})
		m.Observe(node.Deleted{Refs: refs})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/message")
}

// BenchmarkCall is what a call of a port costs for being counted.
func BenchmarkCall(b *testing.B) {
	m := metrics.New(aConfig(), "v")
	ports := m.Ports(node.Ports{Clock: system.New(), Store: memory.New(time.Now)})
	for b.Loop() {
		if _, err := ports.Store.Expired(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
}
