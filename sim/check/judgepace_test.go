package check_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/sim/check"
)

// paced is the beginning of a history with paces, and what follows.
func paced(paces, more string) string {
	return strings.Replace(preamble, "hold_time=", "paces="+paces+" hold_time=", 1) + more
}

// begun are publishes of a process on a lane, by its monotonic clock. They are copies, so that nobody asks for claims.
func begun(topic string, instants ...string) string {
	text := strings.Replace(paced("out/2", ""), "ALL", "submit,publish", 1) +
		"1s submit message=1 id=x topic=" + topic + ".first payload=a deadline=1s\n"
	for _, mono := range instants {
		text += "2s publish node=1.1 message=1 topic=" + topic + " wall=2s mono=" + mono + "\n"
	}
	return text
}

// TestPaces judges histories in which a lane has a pace, and nothing is wrong: there is room again after a second, not
// sooner and not later; another lane has none; and a message may wait for those before it.
func TestPaces(t *testing.T) {
	for name, text := range map[string]string{
		"room again": begun("out", "1s", "1.5s", "2s", "2.5s", "3.1s") + end,
		"not sent": begun("out", "1s", "1s") +
			"2s fail node=1.1 message=1 topic=out text=unsent\n" +
			"2s publish node=1.1 message=1 topic=out wall=2s mono=1.5s\n" + end,
		"other lane": begun("other", "1s", "1s", "1s") + end,
		"waits": strings.NewReplacer("1.95s ", "2.5s ", "1.96s ", "2.51s ", "wall=1.95s", "wall=2.5s",
			"age=50ms", "age=600ms").Replace(paced("out/1", well)) + strings.ReplaceAll(gone, "1.97s", "2.52s") + end,
	} {
		if v := judge(t, text); len(v.Violations) > 0 {
			t.Errorf("%s: %v", name, v.Violations)
		}
	}
}

// queued is a history of a lane on which one message comes out in a second. Message 1 is due at 2 s, and comes out
// after five others, each of which is due at an instant, and stored as claimed at another: both from that of the first
// one on.
func queued(due, claimed time.Duration) string {
	var lines []string
	at := func(when time.Duration, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%v %s\n", when, fmt.Sprintf(format, args...)))
	}
	row := func(n int) string { return fmt.Sprintf("id=m%d topic=out incarnation=%s", n, numbered(n)) }
	submit := func(n int, when, due time.Duration) {
		at(when, "submit message=%d id=m%d topic=out payload=a deadline=%v", n, n, due)
	}
	comesOut := func(n int, claimed, when time.Duration) {
		of := fmt.Sprintf("node=1.1 message=%d topic=out incarnation=%s", n, numbered(n))
		at(when, "publish %s age=%v wall=%v mono=%v", of, when-claimed, when, when)
		at(when+10*time.Millisecond, "fire %s payload=a", of)
		at(when+20*time.Millisecond, "delete node=1.1 %s", row(n))
	}
	submit(1, time.Second, 2*time.Second)
	at(time.Second, "insert message=1 %s deadline=2s", row(1))
	const claim = 8 * time.Second
	for i := range 5 {
		n, out := i+2, 2100*time.Millisecond+time.Duration(i)*1100*time.Millisecond
		// As soon as may be, but not later than it comes out.
		due, claimed := due+time.Duration(i), min(claimed+time.Duration(i)*time.Second, out)
		submit(n, claimed, due)
		at(claimed, "insert message=%d %s deadline=%v %sstamp=%v", n, row(n), due, me, claimed)
		comesOut(n, claimed, out)
	}
	at(claim, "claim node=1.1 %s %sstamp=%v", row(1), me, claim)
	comesOut(1, claim, claim+100*time.Millisecond)
	return inOrderOfTime(paced("out/1", ""), lines) + end
}

func numbered(n int) string { return fmt.Sprintf("%d0000000-0000-0000-0000-000000000000", n) }

// inOrderOfTime puts the lines of a history behind its beginning.
func inOrderOfTime(beginning string, lines []string) string {
	when := func(line string) time.Duration {
		text, _, _ := strings.Cut(line, " ")
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		return d
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(when(a), when(b)) })
	return beginning + strings.Join(lines, "")
}

// TestQueueJumped has others come out before a message: those that are due before it, and those that were claimed
// before anybody can have heard of it, may. Whoever is due later and claimed later has jumped the queue.
func TestQueueJumped(t *testing.T) {
	for name, c := range map[string]struct {
		due, claimed time.Duration
		jumped       bool
	}{
		"due before it":              {1500 * time.Millisecond, 2050 * time.Millisecond, false},
		"due with it, claimed later": {2*time.Second - 4*time.Nanosecond, 2050 * time.Millisecond, false},
		"due later, claimed later":   {2050 * time.Millisecond, 2050 * time.Millisecond, true},
	} {
		v := judge(t, queued(c.due, c.claimed))
		l5 := func(b check.Violation) bool { return b.Invariant == "L5" }
		if broken := slices.ContainsFunc(v.Violations, l5); broken != c.jumped {
			t.Errorf("%s: L5 is broken: %v; %v", name, broken, v.Violations)
		}
	}
}

func brokenPaces() map[string][]string {
	return map[string][]string{
		"S30": {
			begun("out", "1s", "1s", "1s"), begun("out", "1s", "1.5s", "1.999s"),
			begun("out", "1s", "2s", "2.5s", "2.9s"),
			begun("out", "1s", "1s") + "2s fail node=1.1 message=1 topic=out text=missing\n" +
				"2s publish node=1.1 message=1 topic=out wall=2s mono=1.5s\n",
		},
	}
}
