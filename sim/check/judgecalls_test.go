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

// asked is a callback: when it is due, when a process begins it, and when its receiver does what is asked, and says so.
type asked struct {
	message             int
	lane                string
	due, begun, replied string
}

// asking is a history in which a node makes as many callbacks at the same time as are given, and these.
func asking(calls, laneCalls int, all ...asked) string {
	const claim = 50 * time.Millisecond
	var lines []string
	at := func(when time.Duration, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%v %s\n", when, fmt.Sprintf(format, args...)))
	}
	parse := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		return d
	}
	for i, a := range all {
		begun, replied := parse(a.begun), parse(a.replied)
		claimed := parse(a.due) - claim
		this := fmt.Sprintf("id=m%d topic=http:%s incarnation=%d0000000-0000-0000-0000-000000000000",
			a.message, a.lane, a.message)
		of := fmt.Sprintf("node=1.1 message=%d %s", a.message, this[strings.Index(this, "topic"):])
		at(time.Second, "submit message=%d id=m%d topic=http:%s partition=in/0 offset=%d payload=a deadline=%s",
			a.message, a.message, a.lane, i, a.due)
		at(1001*time.Millisecond, "deliver node=1.1 message=%d", a.message)
		at(1002*time.Millisecond, "insert node=1.1 message=%d %s deadline=%s", a.message, this, a.due)
		at(1002*time.Millisecond, "take node=1.1 message=%d partition=in/0 offset=%d lineage=1", a.message, i)
		at(1002*time.Millisecond, "move node=1.1 partition=in/0 offset=%d", i+1)
		at(1003*time.Millisecond, "commit node=1.1 partition=in/0 offset=%d", i+1)
		at(claimed, "claim node=1.1 %s %sstamp=%v", this, me, claimed)
		at(claimed, "ready node=1.1 %s limit=10 until=%v", this, claimed+200*time.Millisecond)
		at(begun, "publish %s age=%v wall=%v", of, begun-claimed, begun)
		at(replied, "fire %s payload=a", of)
		at(replied+5*time.Millisecond, "delete node=1.1 %s", this)
		at(replied+5*time.Millisecond, "delete-done node=1.1 %s", this)
	}
	slices.SortStableFunc(lines, func(a, b string) int {
		one, _, _ := strings.Cut(a, " ")
		two, _, _ := strings.Cut(b, " ")
		return cmp.Compare(parse(one), parse(two))
	})
	limits := fmt.Sprintf("calls=%d lane_calls=%d hold_time=", calls, laneCalls)
	return strings.Replace(preamble, "hold_time=", limits, 1) + strings.Join(lines, "") + end
}

// TestOccupied judges a callback that is begun a second late. It is not late if its process had as many requests under
// way as it makes at the same time, of that lane or of all, and none that comes later was begun before it.
func TestOccupied(t *testing.T) {
	late := asked{1, "out", "2s", "2.99s", "3s"}
	hangs := func(lane string) asked { return asked{2, lane, "1.8s", "1.8s", "2.98s"} }
	for name, c := range map[string]struct {
		text string
		late bool
	}{
		"its lane is full": {asking(2, 1, hangs("out"), late), false},
		"all are busy":     {asking(1, 1, hangs("other"), late), false},
		"another lane":     {asking(2, 1, hangs("other"), late), true},
		"there is room":    {asking(2, 2, hangs("out"), late), true},
		"nobody knows":     {asking(0, 0, hangs("out"), late), true},
		"room for long":    {asking(2, 1, asked{2, "out", "1.8s", "1.8s", "2.5s"}, late), true},
		"one after the other": {
			asking(2, 1, asked{2, "out", "1.8s", "1.8s", "2.4s"},
				asked{3, "out", "1.9s", "2.42s", "2.98s"}, late), false,
		},
		"passed over": {
			asking(2, 1, asked{2, "out", "1.8s", "1.8s", "2.4s"},
				asked{3, "out", "2.4s", "2.42s", "2.98s"}, late), true,
		},
		"of another lane": {
			asking(1, 1, asked{2, "out", "1.8s", "1.8s", "2.4s"},
				asked{3, "other", "2.4s", "2.42s", "2.98s"}, late), false,
		},
	} {
		v := judge(t, c.text)
		broken := len(v.Violations) > 0 && v.Violations[0].Invariant == "L5"
		if broken != c.late || len(v.Violations) > 0 && !broken {
			t.Errorf("%s: %v", name, v.Violations)
		}
	}
}

// A callback is a request, and so no consumer sees it (S24): one that does sees what is no record of it, unless it is
// its dead letter.
func TestCallbackUnseen(t *testing.T) {
	one := asking(0, 0, asked{1, "out", "2s", "2s", "2.1s"})
	for text, broken := range map[string]bool{"3s heal\n": false, "2.2s see message=1 topic=dead\n3s heal\n": true} {
		v := judge(t, strings.Replace(one, end, text+end, 1))
		got := slices.ContainsFunc(v.Violations, func(v check.Violation) bool { return v.Invariant == "S24" })
		if got != broken || !broken && len(v.Violations) > 0 {
			t.Errorf("%q: %v", text, v.Violations)
		}
	}
}

// What was asked for by HTTP through a topic is answered to whoever has asked, and on no outcome topic; and what he
// hears is what was decided (S21).
func TestAskedThroughTopic(t *testing.T) {
	by := "1.93s " + decided + zero + " request=70000000-0000-0000-0000-000000000000 text=cancelled\n"
	heard := "1.94s hear message=2 id=x topic=out lineage=1 text="
	for text, broken := range map[string]bool{heard + "cancelled\n": false, heard + "too_late\n": true} {
		v := judge(t, changed()+by+"1.93s "+passed+text+end)
		got := slices.ContainsFunc(v.Violations, func(v check.Violation) bool { return v.Invariant == "S21" })
		if got != broken {
			t.Errorf("%q: %v", text, v.Violations)
		}
	}
}

// A callback that is replaced while claims are not recorded comes out as it was only if that was said (S19).
func TestReplacedCallback(t *testing.T) {
	for said, broken := range map[string]bool{"": true, " former=true": false} {
		text := unclaimed("action=replace") + "1.93s decide message=2 id=x topic=out action=replace lineage=1 " +
			"text=replaced incarnation=" + x1 + said + "\n" +
			"1.96s fire message=1 topic=out payload=a key=1 incarnation=" + x1 + "\n"
		v := judge(t, strings.ReplaceAll(text+end, "topic=out", "topic=http:out"))
		got := slices.ContainsFunc(v.Violations, func(v check.Violation) bool { return v.Invariant == "S19" })
		if got != broken {
			t.Errorf("%q: %v", said, v.Violations)
		}
	}
}
