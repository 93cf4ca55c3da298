package credential_test

import (
	"strings"
	"testing"

	"chronos/node/credential"
)

// Goal: nothing of a password is shown, well formed or not, and the rest of a URL is.
func TestRedact(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	for text, want := range map[string]string{
		"":                                       "",
		"https://h.example/x?a=b#c":              "https://h.example/x?a=b#c",
		"https://h.example:8443/@home":           "https://xxxxx@home",
		"https://h.example/@home":                "https://h.example/@home",
		"https://u:c4n4ry@h.example/x":           "https://u:xxxxx@h.example/x",
		"https://c4n4ry@h.example/x":             "https://xxxxx@h.example/x",
		"https://u:c4n4ry%zz@h.example/x":        "https://xxxxx@h.example/x",
		"https://u:c4n4ry/x@h.example/x":         "https://xxxxx@h.example/x",
		"https://u:80/c4n4ry@h.example/x":        "https://xxxxx@h.example/x",
		"https://u:c4@n4ry@h.example/x":          "https://u:xxxxx@h.example/x",
		"https://u:c4n4ry@h.example:port/x":      "https://xxxxx@h.example:port/x",
		"//u:c4n4ry@h":                           "xxxxx@h",
		"u:c4n4ry@h":                             "xxxxx@h",
		"postgres://u@h/d?sslpassword=c4n4ry&a=": "postgres://xxxxx@h/d?sslpassword=xxxxx&a=",
		"https://h/x?access_token=c4n4ry&b=c":    "https://h/x?access_token=xxxxx&b=c",
		"https://h/x?b=c&Client_Secret=c4n4ry#f": "https://h/x?b=c&Client_Secret=xxxxx#f",
		"postgres://h/d?user=u&pwd=c4n4ry&a=b":   "postgres://h/d?user=u&pwd=xxxxx&a=b",
		"https://h/x?code=c4n4ry&state=s":        "https://h/x?code=xxxxx&state=s",
		"https://h/x#access_token=c4n4ry&b=c":    "https://h/x#access_token=xxxxx&b=c",
		"https://h/x?a=b#top&ID_Token=c4n4ry#c":  "https://h/x?a=b#top&ID_Token=xxxxx#c",
		"http://h\x7f?token=c4n4ry":              "http://h\x7f?token=xxxxx",
	} {
		got := credential.Redact(text)
		if got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if strings.Contains(got, canary) {
			t.Errorf("%q is shown with its password: %q", text, got)
		}
	}
}
