package callback_test

import (
	"strings"
	"testing"

	"chronos/node/callback"
)

// The error about the url of a lane shows no password, whether the URL is well formed or not.
func TestURLWithoutPassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"https://u:c4n4ry@h.example/x", "https://u:c4n4ry%zz@h.example/x", "u:c4n4ry@h", "https://u:c4n4ry@h:port/x",
	} {
		lane := callback.Default("http:x")
		lane.URL = address
		err := lane.Validate()
		if err == nil || strings.Contains(err.Error(), "c4n4ry") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
