package main

import (
	"strings"
	"testing"
	"time"
)

// Goal: a test that has failed is enough, whatever runs beside it; and it is told with what belongs to it.
func TestOneFailureIsEnough(t *testing.T) {
	t.Parallel()
	const script = `echo "--- FAIL: TestOuter (0.00s)"; echo "    --- FAIL: TestOuter/inner (0.00s)"; exec sleep 600`
	said, failed, err := command(time.Minute, ".", "", "sh", "-c", script)
	if err != nil || !failed || !strings.Contains(why(said), "TestOuter/inner") {
		t.Errorf("%q, failed %v, %v", said, failed, err)
	}
}

// Goal: what is over by itself is judged by how it ends, and what takes too long has failed.
func TestCommandEnds(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]bool{"echo ok": false, "exit 1": true, "exec sleep 600": true} {
		said, failed, err := command(2*time.Second, ".", "", "sh", "-c", script)
		if err != nil || failed != want {
			t.Errorf("%s: %q, failed %v, %v", script, said, failed, err)
		}
	}
}
