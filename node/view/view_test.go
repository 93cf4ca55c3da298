package view_test

import (
	"bytes"
	"strings"
	"testing"

	"chronos/node/view"
)

// What is shown of bytes is read as these bytes: a key that is shown is found by what is shown, also where it is a text
// that looks like base64.
func TestShownBytesAreRead(t *testing.T) {
	for _, value := range []string{
		"", "hi", "base64:aGk=", "base64:", "base64", "base64:base64:", "\xff\x00", "BASE64:x",
	} {
		shown := view.BytesOf([]byte(value)).String()
		read, err := view.ParseBytes(shown)
		if err != nil || !bytes.Equal(read, []byte(value)) {
			t.Errorf("%q is shown as %s, and that is read as %q, %v", value, shown, read, err)
		}
		if plain := !strings.HasPrefix(value, "base64:") && value != "\xff\x00"; plain && shown != value {
			t.Errorf("%q is shown as %s", value, shown)
		}
	}
}
