package main_test

import (
	"os/exec"
	"testing"
)

// TestMovingPage runs what docs/MOVING.md says, line by line.
func TestMovingPage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the page is about curl, and there is none on this machine")
	}
	typePage(t, "TestMovingPage", "MOVING.md", "--metaswitch-listen", "127.0.0.1:0")
}
