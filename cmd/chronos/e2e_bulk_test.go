package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/control"
)

// Goal: a bulk cancel beside two nodes that fire is true. Method: messages of two tenants fall due over ten seconds,
// by turns, and a series every second; those of one tenant are cancelled meanwhile. What comes out of theirs is as many
// as were not counted as cancelled, each once; all of the others come out; and the series ends.
func TestE2EBulkCancel(t *testing.T) {
	t.Parallel()
	c := newControlled(t)
	const n = 500 // of each tenant
	tenant := func(r *kgo.Record, name string) *kgo.Record {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "tenant", Value: []byte(name)})
		return r
	}
	now := time.Now().Add(2 * time.Second)
	var records []*kgo.Record
	for i := range n {
		for _, name := range []string{"blue", "red"} {
			id := fmt.Sprintf("%s-%d", name, i)
			due := now.Add(time.Duration(i) * 20 * time.Millisecond)
			records = append(records, tenant(c.record(id, due, []byte(id)), name))
		}
	}
	series := tenant(c.record("blue-series", now.Add(-time.Second), []byte("blue-series")), "blue")
	series.Headers = append(series.Headers, kgo.RecordHeader{Key: "chronosRepeat", Value: []byte("every 1s")})
	c.submit(t, append(records, series)...)
	c.read(t, c.output, patience, func(all []arrived) bool { return len(all) >= n/2 })
	got := run(t, "", "cancel", "--lane", c.output, "--header", "tenant=blue", "--store", c.database.String(), "--yes",
		"-o", "json")
	var tally control.Tally
	if err := json.Unmarshal([]byte(got.stdout), &tally); err != nil || got.code != 0 && got.code != 3 {
		t.Fatalf("exit code %d: %s%s%v", got.code, got.stdout, got.stderr, err)
	}
	c.drained(t) // which the series would never be
	t.Logf("%+v", tally)
	came := map[string]int{}
	blue, red, cancelled := 0, 0, tally.Cancelled
	if tally.Stopped == 0 {
		cancelled-- // the occurrence that waited is one of those
	}
	for _, r := range c.read(t, c.output, patience, distinct(2*n-cancelled+1)) {
		id := string(r.Value)
		if came[id]++; came[id] > 1 && id != "blue-series" {
			t.Errorf("%s comes twice", id)
		}
		switch {
		case id == "blue-series":
		case strings.HasPrefix(id, "blue"):
			blue++
		default:
			red++
		}
	}
	if red != n || blue != n-cancelled || cancelled < n/10 || tally.Stopped > 1 {
		t.Errorf("%d of the others and %d of %d come out, and the command has counted %+v", red, blue, n, tally)
	}
}
