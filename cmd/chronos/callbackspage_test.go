package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCallbacksPage runs what docs/CALLBACKS.md says, line by line, in a shell, with this program for chronos and a
// server that does what the receiver of the page does, and compares what appears with what the page shows. Instants are
// not compared. CHRONOS_UPDATE=1 writes the page anew, as it appears.
func TestCallbacksPage(t *testing.T) {
	const page, requests = "../../docs/CALLBACKS.md", 4
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	folder := shellFolder(t)
	update := os.Getenv("CHRONOS_UPDATE") != ""
	t.Setenv("CHRONOS_UPDATE", "")                        // which brings back what it was
	if err := os.Unsetenv("CHRONOS_UPDATE"); err != nil { // it is no setting of chronos
		t.Fatal(err)
	}
	asked := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		attempt, status := r.Header.Get("Chronos-Attempt"), http.StatusOK
		switch {
		case r.URL.Path == "/gone":
			status = http.StatusGone
		case r.URL.Path == "/busy" && attempt == "1":
			status = http.StatusServiceUnavailable
		}
		asked <- fmt.Sprintf("%s %s  %s  attempt %s  %s  -> %d", r.Method, r.URL.Path,
			r.Header.Get("Chronos-Message-Id"), attempt, body, status)
		w.WriteHeader(status)
	}))
	defer receiver.Close()
	p, address := dev(t)
	t.Setenv("CHRONOS_BROKERS", address)

	blocks := regexp.MustCompile("(?ms)^```(console|receiver)\n(.*?)^```$")
	shown := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
		parts := blocks.FindStringSubmatch(block)
		var lines []string
		if parts[1] == "receiver" {
			for range requests {
				lines = append(lines, <-asked)
			}
			slices.Sort(lines)
			consume(t, address, "chronos.dead", 1)
			p.stdout.await(t, `fired  order-2`, 1)
		} else {
			for line := range strings.Lines(parts[2]) {
				if command, is := strings.CutPrefix(line, "$ "); is {
					out := shell(t, folder, strings.ReplaceAll(command, "http://127.0.0.1:8000", receiver.URL))
					out = strings.ReplaceAll(out, receiver.URL[len("http://"):], "127.0.0.1:8000")
					lines = append(lines, strings.TrimSuffix(line, "\n"), strings.TrimSuffix(out, "\n"))
				}
			}
		}
		return "```" + parts[1] + "\n" + strings.Join(lines, "\n") + "\n```"
	})
	if update {
		if err := os.WriteFile(page, []byte(shown), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, got := masked(string(text)), masked(shown); !slices.Equal(want, got) {
		t.Errorf("docs/CALLBACKS.md would be\n%s\nlook whether that is right, and run "+
			"CHRONOS_UPDATE=1 go test ./cmd/chronos -run TestCallbacksPage", shown)
	}
}

// shellFolder returns a folder in which this program is chronos.
func shellFolder(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asChronos, self)
	if err := os.WriteFile(filepath.Join(folder, "chronos"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}
