package main_test

import (
	"os/exec"
	"testing"
)

// TestHTTPPage runs what docs/HTTP.md says, line by line.
func TestHTTPPage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the page is about curl, and there is none on this machine")
	}
	typePage(t, "TestHTTPPage", "HTTP.md")
}
