package main_test

import (
	"os/exec"
	"testing"
)

// TestQueuesPage runs what docs/QUEUES.md says, line by line.
func TestQueuesPage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the page is about curl, and there is none on this machine")
	}
	typePage(t, "TestQueuesPage", "QUEUES.md", "--horae-listen", "127.0.0.1:0")
}
