package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/chaos"
)

// TestSmoke runs the scenarios that are quick and find the most: replies that are lost, nodes that are killed, and a
// Postgres that is. `make chaos` runs all of them. The servers are the suite's own.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("the chaos suite starts Kafka and Postgres: not in a short test")
	}
	var chosen strings.Builder
	config := chaos.Config{Seed: 1, HoldTime: 5 * time.Second, Say: &chosen}
	undo, err := chaos.Prepare(t.Context(), &config)
	if err != nil {
		t.Fatal(err)
	}
	defer undo() //nolint:errcheck // a temporary folder
	t.Log(chosen.String())
	ran := 0
	for _, s := range chaos.Scenarios() {
		if !s.Smoke {
			continue
		}
		ran++
		t.Run(s.Name, func(t *testing.T) {
			var said strings.Builder
			config := config
			config.Dir, config.Say = t.TempDir(), &said
			r, err := chaos.Run(t.Context(), s, config)
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			t.Logf("%d submitted, %d fired, %d duplicates %v, judged %v", r.Submitted, r.Verdict.Summary.Fired,
				r.Verdict.Summary.Duplicates, r.Verdict.Summary.Excuses, r.Verdict.Judged)
			if !r.Passed() {
				t.Errorf("go run ./cmd/lab chaos --scenario %s --seed %d\n%v\n%v\n%s",
					s.Name, r.Seed, r.Verdict.Violations, r.Broken, said.String())
			}
			if r.Faults == 0 || r.Verdict.Summary.Fired < r.Submitted/2 || len(r.Verdict.Judged) < 14 {
				t.Errorf("%d faults, %d of %d fired, judged %v: that shows nothing",
					r.Faults, r.Verdict.Summary.Fired, r.Submitted, r.Verdict.Judged)
			}
		})
	}
	if ran != 3 {
		t.Errorf("%d scenarios are smoke tests", ran)
	}
}

// TestSaid reads the end of logs: an error counts, wherever it is, and the settings at the start do not.
func TestSaid(t *testing.T) {
	for log, want := range map[string]bool{
		`{"level":"INFO","msg":"starting","group":"g"}` + "\n" +
			`{"level":"INFO","msg":"end"}`: false,
		`{"level":"INFO","msg":"starting","group":"g"}` + "\n" + `chronos: error: this store is of another group`: true,
		`{"level":"ERROR","msg":"the group"}` + "\n" + `{"level":"INFO","msg":"stopped"}`:                         true,
		"": false,
	} {
		if got := strings.Contains(chaos.Said(log), "group"); got != want {
			t.Errorf("%q: %v", log, got)
		}
	}
}

// TestInTime judges lateness: by the last, by the half, and not at all where there is little of it.
func TestInTime(t *testing.T) {
	half := func(young, old time.Duration) []time.Duration {
		return slices.Concat(slices.Repeat([]time.Duration{young}, 50), slices.Repeat([]time.Duration{old}, 51))
	}
	for name, c := range map[string]struct {
		late []time.Duration
		want string
	}{
		"good":     {half(0, time.Second), ""},
		"half":     {half(0, time.Second+1), "late by 1s (half of them) and 1s"},
		"last":     {append(half(0, 0), 2*time.Second+1), "and 2s (the last)"},
		"too few":  {half(0, 0)[:49], "shows nothing"},
		"at worst": {append(half(0, 0), 2*time.Second), ""},
	} {
		got := chaos.InTime(c.late, 2*time.Second, time.Second)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestSchedules draws the faults of each scenario twice: one seed gives one schedule, another gives another one where
// something is drawn at all.
func TestSchedules(t *testing.T) {
	names := map[string]bool{}
	for _, s := range chaos.Scenarios() {
		if names[s.Name] || s.About == "" {
			t.Errorf("the scenario %q is there twice, or says nothing", s.Name)
		}
		names[s.Name] = true
		first, again, other := chaos.Schedule(s, 1), chaos.Schedule(s, 1), chaos.Schedule(s, 2)
		if first != again {
			t.Errorf("%s: seed 1 gives\n%s\nand\n%s", s.Name, first, again)
		}
		if s.Name == "broken-links" && first == other {
			t.Errorf("%s: two seeds give one schedule", s.Name)
		}
		if s.Name != "no-fault" && strings.Count(first, "\n") == 0 {
			t.Errorf("%s has no faults", s.Name)
		}
	}
	for _, m := range chaos.Mutants() {
		if m.Scenario == nil || m.About == "" {
			t.Errorf("the mutant %s has no scenario, or says nothing", m.Name)
		}
	}
}
