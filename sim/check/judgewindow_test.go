package check_test

import (
	"strings"
	"testing"
)

// windowed is the beginning of a history with windows, and what follows.
func windowed(windows, more string) string {
	return strings.Replace(preamble, "hold_time=", "windows="+windows+" hold_time=", 1) + more
}

// going is the same where the first process goes by other windows.
func going(windows, history string) string {
	const start = "owner=00000000-0000-0000-0000-000000000001\n"
	return strings.Replace(history, start, strings.TrimSuffix(start, "\n")+" windows="+windows+"\n", 1)
}

// given is a claim that is given back at once.
func given() string {
	return until("1.95s") + "1.95s reset node=1.1 " + row + me + "stamp=1.9s age=50ms unsent=true\n"
}

// TestWindows judges histories in which lanes have windows, and nothing is wrong: what waits for an opening is not
// late, what has begun may end later, and a claim that is given back when the lane has closed is no trouble of its
// lane.
func TestWindows(t *testing.T) {
	opened := strings.NewReplacer("1.9s ", "20s ", "1.95s ", "20.01s ", "1.96s ", "20.02s ",
		"wall=1.95s", "wall=20.01s",
		"until=2.1s", "until=20.1s", "stamp=1.9s", "stamp=20s", "age=50ms", "age=10ms").Replace(well)
	for name, text := range map[string]string{
		"opens":    windowed("out/1m/30s/20s", opened) + strings.ReplaceAll(gone, "1.97s", "20.03s") + end,
		"finishes": windowed("out/1m/1.955s/0s", well) + gone + end,
		"closes": windowed("out/1m/1.92s/0s",
			given()+"30s end\n"),
		"others":  windowed("other/1m/1s/30s,out/1m/1m/0s", well) + gone + end,
		"its own": going("out/1m/1m/0s", windowed("out/1m/1s/0s", well)) + gone + end,
		"its own closes": going("out/1m/1.92s/0s", windowed("out/1m/1m/0s",
			given()+"30s end\n")),
	} {
		if v := judge(t, text); len(v.Violations) > 0 {
			t.Errorf("%s: %v", name, v.Violations)
		}
	}
}

func brokenWindows() map[string][]string {
	return map[string][]string{
		"S29": {
			windowed("out/1m/1.92s/0s", until("1.96s")),
			going("out/1m/1.92s/0s", windowed("out/1m/1m/0s", until("1.96s"))),
			strings.Replace(windowed("out/1m/1s/0s", ""), "ALL", "submit,fire", 1) +
				"1s submit message=1 id=x topic=out payload=a deadline=2s\n6s fire message=1 topic=out payload=a\n",
		},
		"L16": {
			strings.Replace(windowed("out/1m/30s/0s", ""), "ALL", "submit,fire,fault,hang", 1) +
				"1s submit message=1 id=x topic=out payload=a deadline=2s\n4s fire message=1 topic=out payload=a\n",
			strings.Replace(windowed("out/1m/30s/20s", ""), "ALL", "submit,fire,fault,hang", 1) +
				"1s submit message=1 id=x topic=out payload=a deadline=2s\n21s fire message=1 topic=out payload=a\n",
			// It was stored long before, and waits for a poll.
			windowed("out/1m/30s/20s", strings.NewReplacer("1.9s ", "20s ", "1.95s ", "20.1s ", "1.96s ", "20.12s ",
				"wall=1.95s", "wall=20.1s", "until=2.1s", "until=20.1s", "stamp=1.9s", "stamp=20s").Replace(well)),
		},
		"L17": {
			windowed("out/1m/10s/30s", until("1.9s ready")),
			windowed("out/1m/1.92s/0s", until("1.95s")+"3s reset node=1.1 "+row+me+"stamp=1.9s age=1.1s unsent=true\n"),
			windowed("out/1m/1.92s/0s", until("1.95s")) + "20s end\n",
		},
	}
}
