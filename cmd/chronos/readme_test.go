package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"chronos/node"
)

// TestReadmeIsComplete asks that the table in the README tells of every header by which a record asks for something,
// and the text of every reason for which one is rejected.
func TestReadmeIsComplete(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range node.RequestHeaders() {
		if !regexp.MustCompile(`(?m)^\| [^|]*` + "`" + name + "`").Match(readme) {
			t.Errorf("the table of headers lacks %s", name)
		}
	}
	source, err := os.ReadFile("../../node/message.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`\bReason\s*= "(\w+)"`).FindAllSubmatch(source, -1)
	if len(reasons) < 20 {
		t.Fatalf("there are %d reasons in node/message.go: are they written otherwise now?", len(reasons))
	}
	for _, reason := range reasons {
		if !strings.Contains(string(readme), "`"+string(reason[1])+"`") {
			t.Errorf("the reasons lack %s", reason[1])
		}
	}
}
