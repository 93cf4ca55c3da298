package main

import (
	"strings"
	"testing"
	"time"
)

// Goal: a test that has failed is enough, whatever runs beside it; and it is told with what belongs to it.
func TestOneFailureIsEnough(t *testing.T) {
	t.Parallel()
	const script = `printf -- '--- FAIL: TestOuter (0.00s)\n    --- FAIL: TestOuter/inner (0.00s)\n'; exec sleep 600`
	said, failed, err := command(5*time.Minute, ".", "", "sh", "-c", script)
	if err != nil || !failed || !strings.Contains(why(said), "TestOuter/inner") {
		t.Errorf("%q, failed %v, %v", said, failed, err)
	}
}

// Goal: what is over by itself is judged by how it ends, and what takes too long has failed.
func TestCommandEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		limit  time.Duration
		failed bool
	}{
		{"echo ok", 5 * time.Minute, false},
		{"exit 1", 5 * time.Minute, true},
		{"exec sleep 600", time.Second, true},
	} {
		said, failed, err := command(c.limit, ".", "", "sh", "-c", c.script)
		if err != nil || failed != c.failed {
			t.Errorf("%s: %q, failed %v, %v", c.script, said, failed, err)
		}
	}
}

// Goal: a mutant is caught by what passes without it, and by nothing that fails anyway. Shells play the binaries.
func TestCaughtIfSound(t *testing.T) {
	t.Parallel()
	m := &mutant{name: "m"}
	for _, c := range []struct {
		script, caught string
		sound          bool
	}{
		{`echo "panic: at $MUTANT_AT_WORK"; test "$MUTANT_AT_WORK" = 0`, "named test at 1", true},
		{"exit 1", "", false},
		{"exit 0", "", true},
	} {
		b := &batch{
			where: ".", numbers: map[*mutant]int{m: 1}, binaries: map[string]string{".": "sh"},
			sound: map[string]error{},
		}
		b.without = b
		caught, err := b.hunt(m, []hunter{{"named test", ".", []string{"-c", c.script}}}, false)
		if caught != c.caught || (err == nil) != c.sound {
			t.Errorf("%s: caught by %q, %v", c.script, caught, err)
		}
	}
}
