package sim_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"chronos/sim"
)

// TestStory tells the story of a message that is lost when deletes go by id.
func TestStory(t *testing.T) {
	script, err := sim.ScenarioByName("h01-lost-delete-reply")
	if err != nil {
		t.Fatal(err)
	}
	script.Break = "delete-by-id"
	setup, err := script.Setup()
	if err != nil {
		t.Fatal(err)
	}
	v := sim.Run(setup).Violation
	if v == nil || len(v.Messages) != 2 {
		t.Fatalf("the violation %+v is not about both messages", v)
	}
	var kinds []string
	for _, step := range sim.Story(setup, v.Messages...) {
		kinds = append(kinds, string(step.Kind))
		t.Log(step.String())
	}
	want := []string{"submit", "row", "append", "fault", "applied", "failed", "submit", "row", "broken"}
	if !subsequence(want, kinds) {
		t.Errorf("the story is %v, which lacks some of %v", kinds, want)
	}
}

// subsequence reports whether all of want come in list, in that order.
func subsequence(want, list []string) bool {
	for _, w := range want {
		i := slices.Index(list, w)
		if i < 0 {
			return false
		}
		list = list[i+1:]
	}
	return true
}

// TestTraceTo checks that each step becomes a line, and that an error of the writer is not lost.
func TestTraceTo(t *testing.T) {
	setup := sim.Setup{Options: sim.Swarm(3)}
	var text strings.Builder
	observe, failed := sim.TraceTo(&text)
	setup.Observe = observe
	sim.Run(setup)
	if lines := strings.Count(text.String(), "\n"); lines < 100 || failed() != nil {
		t.Errorf("the trace has %d lines, and the error %v", lines, failed())
	}
	observe, failed = sim.TraceTo(broken{})
	setup.Observe = observe
	sim.Run(setup)
	if !errors.Is(failed(), errBroken) {
		t.Errorf("the error is %v, want %v", failed(), errBroken)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
