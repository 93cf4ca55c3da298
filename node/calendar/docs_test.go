package calendar_test

import (
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

const seriesPage = "../../docs/SERIES.md"

// TestSeriesPage asks that docs/SERIES.md shows what the examples print, and the sentences for what is rejected.
func TestSeriesPage(t *testing.T) {
	text, err := os.ReadFile(seriesPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	file, err := parser.ParseFile(token.NewFileSet(), "example_test.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	examples := doc.Examples(file)
	if len(examples) < 3 {
		t.Fatalf("there are %d examples only", len(examples))
	}
	for _, example := range examples {
		// Markdown's code block is indented by four.
		block := "    " + strings.ReplaceAll(strings.TrimSpace(example.Output), "\n", "\n    ") + "\n\n"
		if !strings.Contains(page, block) {
			t.Errorf("docs/SERIES.md doesn't show what the example %s prints:\n%s", example.Name, block)
		}
	}
	reasons := map[string]bool{}
	for _, row := range table(t, "testdata/rejected.txt", 5) {
		reasons[row[2]] = true
	}
	for reason := range reasons {
		if !strings.Contains(page, "`"+reason+"`") {
			t.Errorf("docs/SERIES.md doesn't explain %s", reason)
		}
	}
}
