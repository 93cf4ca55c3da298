package sim_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"chronos/sim"
)

// TestScriptsAreReadAsWritten writes the plans of drawn runs and reads them again.
func TestScriptsAreReadAsWritten(t *testing.T) {
	for seed := range uint64(50) {
		result := sim.Run(sim.Setup{Options: sim.Swarm(seed)})
		want := &sim.Script{
			About: "One line.\nAnother.\n", Break: "upsert", Expect: "S2",
			Options: sim.Swarm(seed), Plan: *result.Plan,
			Sometimes: []string{"crash"}, Never: []string{"expelled"},
			Against: []sim.Against{{Mutant: "upsert", Invariant: "S2"}},
		}
		if len(want.Plan.Faults) == 0 {
			want.Plan.Faults = nil
		}
		var text bytes.Buffer
		if _, err := want.WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		got, err := sim.ReadScript(&text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: read\n%+v\nbut written was\n%+v", seed, got, want)
		}
	}
}

// TestScriptsAreChecked gives the reader one mistake at a time.
func TestScriptsAreChecked(t *testing.T) {
	for _, line := range []string{
		"nodes none",
		"nodes 0",
		"colour red",
		"fates ddd",
		"fates x",
		"mix earthquake",
		"hold 1s",
		"at 1s submit 1 id x",
		"at soon submit 1 id x in 1s",
		"at 1s submit 0 id x in 1s",
		"at 1s submit 1 id x in 1s flaw ugly",
		"at 1s submit 1 id x in 1s colour red",
		"after 0 1s submit 1 id x in 1s",
		"node 1 delete 1 reply-lost",
		"node 1 delete 0: reply-lost",
		"node 1 dance 1: reply-lost",
		"node 1 delete 1: earthquake",
		"node 1 delete 1:",
		"node 1 delete 1: pause long",
		"node 1 submit 1: duplicate",
		"node 1 expired 1: duplicate",
		"app delete 1: reply-lost",
		"node one delete 1: reply-lost",
	} {
		if s, err := sim.ReadScript(strings.NewReader(line)); err == nil {
			t.Errorf("%q is accepted: %+v", line, s.Plan)
		}
	}
}
