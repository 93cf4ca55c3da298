package check_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// parkedAt is a history of a message that is due at 2 s and is parked on partition 3 of its topic, which hangs until an
// instant. It is tried anew so many times, a step apart, and comes out in the end.
func parkedAt(hangs time.Duration, again int, step, at time.Duration) string {
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s0.5s hang topic=out partition=out/3 until=%v\n%s", preamble, hangs, until("1.9s claim"))
	claim := func(part string, at time.Duration) {
		fmt.Fprintf(&lines, "%v claim node=1.1 %s%sstamp=%v\n", at, row, me, at)
		fmt.Fprintf(&lines, "%v ready node=1.1 %slimit=10 until=%v%s\n", at, row, at+time.Second, part)
	}
	part := ""
	for n := range again + 1 {
		now := 2*time.Second + time.Duration(n)*step
		claim(part, now)
		part = " part=3"
		if n%10 == 0 { // a few: L4 counts them
			fmt.Fprintf(&lines, "%v fail node=1.1 message=1 topic=out incarnation=%s\n", now, x1)
		}
		fmt.Fprintf(&lines, "%v reset node=1.1 %s%sstamp=%v unsent=true%s\n", now, row, me, now, part)
	}
	claim(part, at)
	fmt.Fprintf(&lines, "%v publish node=1.1 message=1 topic=out incarnation=%s age=10ms wall=%v\n", at, x1, at)
	fmt.Fprintf(&lines, "%v fire message=1 topic=out payload=a partition=out/3 incarnation=%s\n", at, x1)
	return lines.String()
}

func brokenParked() map[string][]string {
	const s = time.Second
	return map[string][]string{
		"L23": {parkedAt(8*s, 60, s/10, 9*s)},
		"L24": {parkedAt(6*s, 0, s/10, 19*s)},
	}
}

// besideParked adds to a history a second message, parked on the same partition at 2 s, which comes out at an instant.
func besideParked(text string, at time.Duration) string {
	second := "id=y topic=out incarnation=" + x2 + " "
	lines := map[time.Duration][]string{
		time.Second: {
			"submit message=2 id=y topic=out partition=in/0 offset=1 payload=b deadline=2s",
			"insert node=1.1 message=2 id=y topic=out incarnation=" + x2 + " deadline=2s",
		},
		2 * time.Second: {
			"claim node=1.1 " + second + me + "stamp=2s",
			"fail node=1.1 message=2 topic=out incarnation=" + x2,
			"reset node=1.1 " + second + me + "stamp=2s unsent=true part=3",
		},
		at: {
			"claim node=1.1 " + second + me + fmt.Sprintf("stamp=%v", at),
			fmt.Sprintf("publish node=1.1 message=2 topic=out incarnation=%s age=10ms wall=%v", x2, at),
			"fire message=2 topic=out payload=b partition=out/3 incarnation=" + x2,
		},
	}
	var merged strings.Builder
	instants := slices.Sorted(maps.Keys(lines))
	for line := range strings.Lines(text) {
		stamp, _, _ := strings.Cut(line, " ")
		if now, err := time.ParseDuration(stamp); err == nil {
			for len(instants) > 0 && now > instants[0] {
				for _, one := range lines[instants[0]] {
					fmt.Fprintf(&merged, "%v %s\n", instants[0], one)
				}
				instants = instants[1:]
			}
		}
		merged.WriteString(line)
	}
	return merged.String()
}

// TestParked judges what is no failure of what is parked.
func TestParked(t *testing.T) {
	const s = time.Second
	for name, text := range map[string]string{
		"probed":       parkedAt(6*s, 41, s/20, 8*s),
		"probed later": parkedAt(13*s, 50, s/5, 14*s),
		"after 6 s":    parkedAt(6*s, 0, s, 14*s),
		"still hangs":  parkedAt(30*s, 0, s, 29*s),
		"comes out":    besideParked(parkedAt(9*s, 70, s/20, 10*s), 3500*time.Millisecond),
		"not parked":   strings.ReplaceAll(parkedAt(6*s, 0, s, 19*s), " part=3", ""),
	} {
		for _, b := range judge(t, text+"60s delete "+row+"\n"+end).Violations {
			if b.Invariant == "L23" || b.Invariant == "L24" || b.Invariant == "S15" {
				t.Errorf("%s: %v", name, b)
			}
		}
	}
}
