package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// backlogged is a history of a lane on which one message waits until 16 s, while sixty others are claimed. Something
// has gone wrong long before, so that nobody is punctual.
func backlogged(stored, due, others time.Duration) string {
	var lines strings.Builder
	add := func(at time.Duration, format string, args ...any) {
		fmt.Fprintf(&lines, "%v %s\n", at, fmt.Sprintf(format, args...))
	}
	add(100*time.Millisecond, "fault")
	row := func(n int) string {
		return fmt.Sprintf("id=m%d topic=out incarnation=%08d-0000-0000-0000-000000000000", n, n)
	}
	store := func(n int, at, due time.Duration) {
		add(at, "submit message=%d id=m%d topic=out payload=a deadline=%v", n, n, due)
		add(at, "insert node=1.1 message=%d %s deadline=%v", n, row(n), due)
	}
	claim := func(n int, at time.Duration) {
		add(at, "claim node=1.1 %s owner=00000000-0000-0000-0000-000000000001 stamp=%v", row(n), at)
		add(at, "ready node=1.1 %s limit=10 until=%v", row(n), at+time.Second)
	}
	store(1, stored, due)
	for n := 2; n <= 61; n++ { // none of which waits for long itself
		at := 12*time.Second + time.Duration(n)*50*time.Millisecond
		store(n, at, others)
		claim(n, at)
	}
	claim(1, 16*time.Second)
	return preamble + lines.String()
}

func brokenShares() map[string][]string {
	const s = time.Second
	return map[string][]string{"L20": {
		backlogged(11*s, 12*s, 3*s), // it has just fallen due, and waits for what is there for long
		backlogged(10*s, 2*s, 11*s), // it is there for longest, and what falls due later goes before it
	}, "L21": {
		beside("partition=out/1", "", 14*s),
		beside("partition=out/1", "13s heal\n", 18*s), // it was late by then
	}, "L22": {
		unreached("a", "out/3", 24*s),
	}}
}

// beside is a history of a message that is due at 2 s and comes out later on partition 3 of its topic, of which
// something hangs; then may come what happens right before.
func beside(hangs, then string, at time.Duration) string {
	return preamble + "0.5s hang topic=out " + hangs + "\n" + strings.NewReplacer(
		"1.95s publish", then+at.String()+" publish", "1.96s fire", at.String()+" fire").Replace(well)
}

// unreached is beside, where nodes do not reach a partition.
func unreached(nodes, partition string, at time.Duration) string {
	text := strings.Replace(beside("partition=out/9", "", at), "hold_time=", "nodes=3 hold_time=", 1)
	for node := range strings.FieldsSeq(nodes) {
		cut := "0.5s unreached node=" + node + " topic=out partition=" + partition + "\n"
		text = strings.Replace(text, "0.5s hang", cut+"0.5s hang", 1)
	}
	return text
}

// TestBeside judges what is no failure to be in time beside a partition that hangs.
func TestBeside(t *testing.T) {
	const s = time.Second
	for name, text := range map[string]string{
		"in time":            beside("partition=out/1", "", 5*s),
		"the one that hangs": beside("partition=out/3", "", 14*s),
		"after the healing":  beside("partition=out/1", "4s heal\n", 18*s),
		"all of it hangs":    beside("", "", 14*s),
		"reached by nobody":  unreached("a b c d e", "out/3", 24*s),
		"a peer is in time":  unreached("a", "out/3", 5*s),
	} {
		v := judge(t, text+end)
		for _, b := range v.Violations {
			if b.Invariant == "L21" || b.Invariant == "L22" {
				t.Errorf("%s: %v", name, b)
			}
		}
	}
}

// TestShares judges histories in which a message waits for others by right: it is no new one, or they are not later
// than it.
func TestShares(t *testing.T) {
	const s = time.Second
	for name, text := range map[string]string{
		"stored late":      backlogged(11*s, 9*s, 3*s),
		"others as new":    backlogged(11*s, 12*s, 11*s+500*time.Millisecond),
		"others are older": backlogged(10*s, 8*s, 3*s),
		"with a pace":      strings.Replace(backlogged(10*s, 2*s, 11*s), "hold_time=", "paces=out/1 hold_time=", 1),
	} {
		v := judge(t, text+end)
		for _, b := range v.Violations {
			if b.Invariant == "L20" {
				t.Errorf("%s: %v", name, b)
			}
		}
	}
}
