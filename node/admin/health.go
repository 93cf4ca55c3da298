package admin

import (
	"fmt"
	"net/http"
	"strings"
)

// Check is the answer to one question of a probe, in words.
type Check struct {
	Name   string // such as "store"
	OK     bool
	Warn   bool   // somebody should look at it, although OK may be so
	Detail string // one sentence: why it is as it is
}

// Probe answers the questions of one probe, at once and without asking anybody: it is what was seen lately.
type Probe func() []Check

// Health mounts the probes: /livez, whether the process should go on running, and /readyz, whether it can do its work.
// The answer is 200, or 503 if a check is not well. With ?verbose all checks are in it, and otherwise those that
// are not well or warn.
func (s *Server) Health(live, ready Probe) {
	s.Handle("GET /livez", Open, probeHandler(live, "not alive"))
	s.Handle("GET /readyz", Open, probeHandler(ready, "not ready"))
}

func probeHandler(probe Probe, unwell string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checks := probe()
		well, warns := true, false
		for _, c := range checks {
			well, warns = well && c.OK, warns || c.Warn
		}
		verbose := r.URL.Query().Has("verbose")
		var text strings.Builder
		for _, c := range checks {
			switch {
			case !c.OK:
				fmt.Fprintf(&text, "[-] %s: %s\n", c.Name, c.Detail)
			case c.Warn:
				fmt.Fprintf(&text, "[!] %s: %s\n", c.Name, c.Detail)
			case verbose:
				fmt.Fprintf(&text, "[+] %s: %s\n", c.Name, c.Detail)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case well && warns:
			text.WriteString("ok for this node, but not all is well\n")
		case well:
			text.WriteString("ok\n")
		default:
			text.WriteString(unwell + "\n")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(text.String())) // Who does not wait for the answer does not need it.
	})
}
