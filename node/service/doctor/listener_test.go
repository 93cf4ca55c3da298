package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chronos/node/admin"
	"chronos/node/service/doctor"
)

// Goal: what makes a token worth less than it looks is found, and what is well is not. Method: files and listeners with
// one mistake each.
func TestListener(t *testing.T) {
	t.Parallel()
	const long = "bf9Jq1nT0Yk3mE7sZr4u"
	for _, c := range []struct {
		name, file  string
		mode        os.FileMode
		config      admin.Config
		said, about string
		finding     string // a part of what it says; "" for none
	}{
		{"none", "", 0o600, admin.Config{}, "none in these settings", "", ""},
		{"no token", "", 0o600, admin.Config{Listen: "127.0.0.1:1"}, "without a token", "", ""},
		{"one token", long + "\n", 0o600, admin.Config{Listen: "127.0.0.1:1"}, "1 token, 0 of them with", "", ""},
		{
			"well", "a read " + long + "\nb control " + long + "2\n", 0o640,
			admin.Config{Listen: "127.0.0.1:1", Rights: admin.Rights{Control: true}},
			"2 tokens, 1 of them with control", "", "",
		},
		{"network", long + "\n", 0o600, admin.Config{Listen: ":1"}, "1 token", "admin-listen", "no TLS"},
		{"network with TLS", long + "\n", 0o600, admin.Config{Listen: ":1", CertFile: "x"}, "1 token", "", ""},
		{"open", long + "\n", 0o644, admin.Config{Listen: "[::1]:1"}, "1 token", "admin-token-file", "every user"},
		{
			"idle", "a read,payload,control " + long + "\n", 0o600,
			admin.Config{Listen: "localhost:1"},
			"1 token", "token a",
			"no one has here: payload, control",
		},
	} {
		if c.file != "" {
			c.config.TokenFile = filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(c.config.TokenFile, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(c.config.TokenFile, c.mode); err != nil {
				t.Fatal(err)
			}
		}
		said, found, err := doctor.Listener(t.Context(), c.config)
		if err != nil || !strings.Contains(said, c.said) {
			t.Errorf("%s: it says %q, %v; want %q", c.name, said, err, c.said)
		}
		switch {
		case c.finding == "" && len(found) > 0:
			t.Errorf("%s: found %+v", c.name, found)
		case c.finding != "" && (len(found) != 1 || found[0].About != c.about ||
			!strings.Contains(found[0].Says, c.finding) || found[0].Do == "" || found[0].Means == ""):
			t.Errorf("%s: found %+v, want one about %s that says %q", c.name, found, c.about, c.finding)
		}
		for _, f := range found {
			if strings.Contains(f.About+f.Says+f.Means+f.Do, long) {
				t.Errorf("%s: a finding shows a token: %+v", c.name, f)
			}
		}
	}
	absent := admin.Config{Listen: "127.0.0.1:1", TokenFile: "/no/such"}
	if _, _, err := doctor.Listener(t.Context(), absent); err == nil {
		t.Error("a file that is not there is no error")
	}
}
