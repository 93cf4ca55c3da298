package node_test

import (
	"testing"

	"chronos/node"
)

// Goal: half of a surrogate pair is found wherever it stands, and nothing else is taken for one: not a pair, not the
// character that stands for what is lost, not an escaped backslash before what looks like an escape.
func TestWholeJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`""`: true, `"a"`: true, `"\u00e9"`: true, `"\ud83d\ude00"`: true, `"x\ud83d\ude00\uD83D\uDE00y"`: true,
		`"\ufffd"`: true, `"\uFFFD \ufffd"`: true, "\"\uFFFD\"": true, `"\\ud800"`: true, `"\\\\ud800"`: true,
		`{"text": "\ud83d\ude00"}`: true, `"\n\ud83d\ude00\""`: true,
		`"\ud800"`: false, `"\udc00"`: false, `"\ude00\ud83d"`: false, `"\ud83d \ude00"`: false,
		`"\ud83d\ud83d\ude00"`: false, `"\ud83d\ude00\ude00"`: false, `"\\ufffd\ud800"`: false,
		`"\ud83d\n\ude00"`: false, `{"text": "a\uDBFF"}`: false, `"\\\ud800"`: false, `"\ud83d\u0061"`: false,
	} {
		if node.WholeJSON([]byte(text)) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
