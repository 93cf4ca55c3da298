package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"chronos/chaos"
)

// TestLines writes from two scenarios at once: whole lines with their names, and no empty ones.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	a, b := &lines{screen: s, prefix: "a-1"}, &lines{screen: s, prefix: "b-1"}
	for _, w := range []struct {
		to   *lines
		text string
	}{{a, "one, "}, {b, "two\nthree\n\n"}, {a, "four\n"}, {b, "unfinished"}} {
		if n, err := fmt.Fprint(w.to, w.text); n != len(w.text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got, want := strings.Join(strings.Fields(out.String()), " "), "b-1 two b-1 three a-1 one, four"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSortOut has a scenario that has run, one that can't be run here, and one that should have.
func TestSortOut(t *testing.T) {
	here := func(name string, r *chaos.Result, err error) *try {
		return &try{scenario: &chaos.Scenario{Name: name}, seed: 1, result: r, err: err}
	}
	results, absent, err := sortOut([]*try{
		here("good", &chaos.Result{Scenario: "good"}, nil),
		here("absent", nil, fmt.Errorf("mount: %w", chaos.ErrImpossible)),
		here("bad", nil, errors.New("no room")),
	})
	if len(results) != 1 || results[0].Scenario != "good" || strings.Join(absent, " ") != "absent" ||
		err == nil || err.Error() != "scenario bad, seed 1: no room" {
		t.Errorf("%v, %v, %v", results, absent, err)
	}
}
