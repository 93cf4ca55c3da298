package check_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/sim/check"
)

// TestRoundTrip writes any event and reads the same again.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ax \"\\=#-\n\té\x00\u2028")))
		duration := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "nanoseconds"))
		})
		e := &check.Event{
			At: duration.Draw(t, "at"), Node: text.Draw(t, "node"), ID: text.Draw(t, "id"), Text: text.Draw(t, "text"),
			Topic: text.Draw(t, "topic"), Partition: text.Draw(t, "partition"), Offset: rapid.Int64().Draw(t, "offset"),
			Message: rapid.Int().Draw(t, "message"), Deadline: duration.Draw(t, "deadline"),
			Age:     duration.Draw(t, "age"),
			Payload: rapid.Uint64().Draw(t, "payload"), Skipped: rapid.Bool().Draw(t, "skipped"),
			Epoch: rapid.Int().Draw(t, "epoch"), Lineage: rapid.Int64().Draw(t, "lineage"),
			Written: text.Draw(t, "written"), To: rapid.Int64().Draw(t, "to"),
			Flaw: rapid.SampledFrom([]string{"", check.Invalid, check.Poison, check.Unacknowledged}).Draw(t, "flaw"),
		}
		copy(e.Incarnation[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "incarnation"))
		kinds := slices.DeleteFunc(check.Kinds(), func(k check.Kind) bool { return k == check.Configure })
		e.Kind = rapid.SampledFrom(kinds).Draw(t, "kind")
		var written strings.Builder
		w := check.NewWriter(&written)
		w.Add(e)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		var read []*check.Event
		err := check.Read(strings.NewReader(written.String()), func(e *check.Event) error {
			read = append(read, e)
			return nil
		})
		if err != nil || len(read) != 1 || !reflect.DeepEqual(read[0], e) {
			t.Fatalf("%q gives %+v, want %+v: %v", written.String(), read, e, err)
		}
	})
}

// TestConfigRoundTrip sets every field of a configuration, so that none is forgotten in the text.
func TestConfigRoundTrip(t *testing.T) {
	c := &check.Config{}
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); {
		case f.Type() == reflect.TypeFor[[]check.Window]():
			f.Set(reflect.ValueOf([]check.Window{
				{Topic: "http:out", Period: time.Minute, Open: time.Second, Phase: -time.Hour},
				{Topic: "out.1", Period: time.Second, Open: time.Second},
			}))
		case f.Type() == reflect.TypeFor[[]check.Pace]():
			f.Set(reflect.ValueOf([]check.Pace{{Topic: "http:out", PerSecond: 5}, {Topic: "out.1", PerSecond: 1}}))
		case f.CanInt():
			f.SetInt(int64(i + 1))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		default:
			f.Set(reflect.ValueOf([]check.Kind{check.Fire, check.End}))
		}
	}
	line := (&check.Event{Kind: check.Configure, Config: c}).String()
	e, err := check.ParseEvent(line)
	if err != nil || !reflect.DeepEqual(e.Config, c) {
		t.Fatalf("%s gives %+v, want %+v: %v", line, e.Config, c, err)
	}
}

// TestEventFields sees that every field of an event can be written.
func TestEventFields(t *testing.T) {
	for i := range reflect.TypeFor[check.Event]().NumField() {
		f := reflect.TypeFor[check.Event]().Field(i)
		if slices.Contains([]string{"At", "Kind", "Config", "Flaw"}, f.Name) {
			continue
		}
		e := &check.Event{Kind: check.Fire}
		switch v := reflect.ValueOf(e).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Uint64:
			v.SetUint(7)
		case reflect.Array:
			v.Index(0).SetUint(7)
		case reflect.Slice:
			v.Set(reflect.ValueOf([]check.Window{{Topic: "out", Period: time.Second, Open: time.Millisecond}}))
		default:
			v.SetInt(7)
		}
		if read, err := check.ParseEvent(e.String()); err != nil || !reflect.DeepEqual(read, e) {
			t.Errorf("%s is lost: %q, %v", f.Name, e, err)
		}
	}
}

// TestDocs compares the invariants with what docs/CORRECTNESS.md says of them, and the kinds and fields of events with
// docs/HISTORY.md: a person must find the same words.
func TestDocs(t *testing.T) {
	correctness := document(t, "CORRECTNESS.md")
	for _, i := range check.Invariants() {
		want := "**" + i.Name + " " + i.Title + ".** " + i.Statement
		if !strings.Contains(correctness, want) {
			t.Errorf("docs/CORRECTNESS.md does not say:\n%s", want)
		}
	}
	var stated, judged []string
	for _, n := range regexp.MustCompile(`\*\*([SL]\d+) `).FindAllStringSubmatch(correctness, -1) {
		stated = append(stated, n[1])
	}
	for _, i := range check.Invariants() {
		judged = append(judged, i.Name)
	}
	if !slices.Equal(stated, judged) {
		t.Errorf("docs/CORRECTNESS.md states %v, and the judge knows %v", stated, judged)
	}
	var described []string
	row := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|[^|]*\\|[^|]*\\|$")
	for _, k := range row.FindAllStringSubmatch(raw(t, "HISTORY.md"), -1) {
		described = append(described, k[1])
	}
	for _, k := range check.Kinds() {
		if !slices.Contains(described, string(k)) {
			t.Errorf("docs/HISTORY.md does not describe %s", k)
		}
	}
	for _, k := range described {
		if !slices.Contains(check.Kinds(), check.Kind(k)) {
			t.Errorf("docs/HISTORY.md describes %s, which is no kind", k)
		}
	}
	example := regexp.MustCompile("(?s)```history\n(.*?)```").FindStringSubmatch(raw(t, "HISTORY.md"))
	if example == nil {
		t.Fatal("docs/HISTORY.md has no example")
	}
	if v, err := check.Check(strings.NewReader(example[1])); err != nil || len(v.Violations) > 0 {
		t.Errorf("the example of docs/HISTORY.md: %v, %v", v.Violations, err)
	}
}

// document returns a page of docs with all white space made one blank.
func document(t *testing.T, name string) string {
	t.Helper()
	return strings.Join(strings.Fields(raw(t, name)), " ")
}

func raw(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBounds compares the bounds under the defaults with the table in docs/CORRECTNESS.md.
func TestBounds(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	c := check.Config{
		HoldTime: 5 * s, PollInterval: 100 * ms, DetectionInterval: 500 * ms,
		Lookahead: 250 * ms, LeaveAfter: 10 * s, StoreTimeout: 1500 * ms, PublishTimeout: 2 * s, Retry: 1500 * ms,
		PublishableAge: 2500 * ms,
		StandBack:      2200 * ms, StoreLatency: 20 * ms, BrokerLatency: 40 * ms, Session: 10 * s, Rebalance: 30 * s,
		Batch: 500, Messages: 100, Lanes: 2,
	}
	correctness := document(t, "CORRECTNESS.md")
	for name, bound := range map[string]time.Duration{
		"L1 recovery": c.Recovery(), "L2 drain": c.Drained(), "L3 consumed": c.Consumed(),
		"L5 punctual": c.Punctual(), "L6 beside poison": c.Punctual() + c.PollInterval,
		"L7 cut off and gone": c.Leaves(), "L9 restored": c.Restored(), "L10 beside a sink that hangs": c.Turn(),
		"L11 until a claim": c.Fair(), "L12 after a pause": c.Still(),
		"L21 beside a silent partition": c.Beside(0),
		"L22 by way of a peer":          c.Around(0),
		"L24 back":                      c.Back(0),
	} {
		if want := "| " + name + " | " + bound.String() + " |"; !strings.Contains(correctness, want) {
			t.Errorf("docs/CORRECTNESS.md does not say %s", want)
		}
	}
}
