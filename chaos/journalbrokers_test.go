package chaos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/chaos"
	"chronos/sim/check"
)

// TestWarmTakeovers reads the logs of nodes of which one was killed: who has taken its partitions over before it was
// back must have had a copy. What others own anew, or what it takes back, is not looked at.
func TestWarmTakeovers(t *testing.T) {
	killed := time.Now().Add(time.Minute)
	owns := func(after time.Duration, partition int, isNew bool) string {
		return fmt.Sprintf(`{"time":%q,"msg":"owns a partition of the journal","partition":%d,"entries_read":7,`+
			`"copy_is_new":%t}`+"\n", killed.Add(after).Format(time.RFC3339Nano), partition, isNew)
	}
	const s = time.Second
	before := map[string]string{
		"node-1.1.log": owns(-9*s, 0, true) + owns(-9*s, 1, true),
		"node-2.1.log": owns(-9*s, 2, true) + `{"msg":"something else","partition":"orders"}` + "\n",
	}
	for name, c := range map[string]struct {
		after map[string]string
		want  string
	}{
		"warm":     {map[string]string{"node-2.1.log": owns(7*s, 0, false) + owns(7*s, 1, false)}, ""},
		"cold":     {map[string]string{"node-2.1.log": owns(7*s, 0, false) + owns(7*s, 1, true)}, "partition 1"},
		"too late": {map[string]string{"node-2.1.log": owns(11*s, 0, false)}, "shows nothing"},
		"its own":  {map[string]string{"node-2.1.log": owns(7*s, 2, true)}, "shows nothing"},
		"one left": {map[string]string{"node-2.1.log": owns(7*s, 0, false)}, "and 1 not"},
		"back": {map[string]string{
			"node-2.1.log": owns(7*s, 0, false) + owns(7*s, 1, false), "node-1.2.log": owns(12*s, 0, true),
		}, ""},
	} {
		dir := t.TempDir()
		for _, logs := range []map[string]string{before, c.after} {
			for file, text := range logs {
				old, _ := os.ReadFile(filepath.Join(dir, file)) // there need be none
				if err := os.WriteFile(filepath.Join(dir, file), append(old, text...), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := chaos.WarmTakeovers(dir, 1, killed, 10*s)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestInTimeWithout has a broker be frozen from second 10 to second 34. What falls due before nodes can have found that
// out may be late, and nothing afterwards; that depends on when the cluster has given the broker up.
func TestInTimeWithout(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		elected time.Duration // when others led what it led
		late    time.Duration // until when messages are late by 9 s
		want    string
	}{
		"in time":           {elected: 13 * s, late: 23 * s},
		"waits":             {elected: 13 * s, late: 27 * s, want: "late"},
		"given up later":    {elected: 17 * s, late: 27 * s},
		"waits all along":   {elected: 17 * s, late: 34 * s, want: "late"},
		"never given up":    {late: 20 * s, want: "shows nothing"},
		"given up too late": {elected: 30 * s, late: 20 * s, want: "shows nothing"},
	} {
		var events []check.Event
		for i := range 3000 {
			due := time.Duration(i) * s / 60
			fired := due + s/10
			if due > 10*s && due < c.late {
				fired = due + 9*s
			}
			events = append(events, check.Event{Kind: check.Submit, Message: i, At: due - s/2, Deadline: due},
				check.Event{Kind: check.Fire, Message: i, At: fired})
		}
		got := chaos.InTimeWithout(events, 10*s, c.elected, 34*s)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
