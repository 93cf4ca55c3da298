package check_test

import "testing"

// inherited is a topic that was made again, of which the group has what was committed for the one before.
const inherited = "0.5s rewind partition=in#2/0 offset=12\n0.6s place node=1.1 partition=in#2/0\n"

// TestMadeAgain judges a history in which a topic was made again and stays empty: what the group has for the one before
// says nothing of its log.
func TestMadeAgain(t *testing.T) {
	if v := judge(t, preamble+inherited+well+gone+"2s heal\n"+end); len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}
