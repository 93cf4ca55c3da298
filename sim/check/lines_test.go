package check_test

import (
	"strings"
	"testing"
)

// TestOthersInLine publishes a message before one of the same key that waits on another lane, and before one of another
// key. That is no mistake.
func TestOthersInLine(t *testing.T) {
	for _, other := range []string{
		"topic=http:other partition=in/0 offset=1 payload=b key=1", "topic=out partition=in/0 offset=1 payload=b key=2",
	} {
		topic, _, _ := strings.Cut(other, " ")
		text := inLine("1.5s submit message=2 id=w " + other + " deadline=1.9s\n" +
			"1.5s insert message=2 id=w " + topic + " incarnation=" + x2 + " deadline=1.9s\n" +
			"4s claim node=1.1 " + row + me + "stamp=4s\n" +
			"4.1s publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=100ms wall=4.1s\n")
		for _, b := range judge(t, text+end).Violations {
			if b.Invariant == "S28" {
				t.Errorf("%s: %v", other, b)
			}
		}
	}
}
