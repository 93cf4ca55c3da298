package check_test

import (
	"strings"
	"testing"
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
