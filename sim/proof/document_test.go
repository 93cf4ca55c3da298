package proof_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"chronos/sim/proof"
)

// document is the page that explains the proof.
const document = "../../docs/PROOF.md"

// TestDocument compares the tables of the page with the system. CHRONOS_UPDATE=1 writes them anew.
func TestDocument(t *testing.T) {
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	reasons := readReasons(t)
	for what, table := range map[string]string{
		"transitions": transitionTable(reasons), "invariant": invariantTable(reasons), "promises": promiseTable(),
		"variants": variantTable(), "formulas": formulas(),
	} {
		begin, end := "<!-- "+what+": made by TestDocument. -->\n", "<!-- end of "+what+" -->"
		from, to := strings.Index(page, begin), strings.Index(page, end)
		if from < 0 || to < 0 {
			t.Fatalf("%s has no place for the table of the %s", document, what)
		}
		page = page[:from+len(begin)] + "\n" + table + "\n" + page[to:]
	}
	if page == string(content) {
		return
	}
	if os.Getenv("CHRONOS_UPDATE") == "" {
		t.Fatalf("%s is not about this system: run CHRONOS_UPDATE=1 go test ./sim/proof -run TestDocument", document)
	}
	if err := os.WriteFile(document, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

// formulas writes the whole system: who takes anything out of it, or adds something, sees it here.
func formulas() string {
	var text strings.Builder
	s := proof.Ours()
	for at := range s.Transitions {
		if at > 0 {
			text.WriteString("\n")
		}
		text.WriteString(s.Transitions[at].String())
	}
	for _, part := range []struct {
		title string
		all   []proof.Named
	}{{"the axioms", s.Axioms}, {"the invariant", s.Invariant}, {"the promises", s.Promises}} {
		text.WriteString("\n" + part.title + "\n")
		for _, named := range part.all {
			if !strings.HasSuffix(named.Name, ", images") {
				fmt.Fprintf(&text, "    %s: %v\n", named.Name, named.Formula)
			}
		}
	}
	return "```text\n" + strings.TrimSpace(text.String()) + "\n```\n"
}

func transitionTable(reasons map[proof.Removal][2]string) string {
	var text strings.Builder
	text.WriteString("| transition | it needs that | what breaks without it |\n|---|---|---|\n")
	for _, transition := range proof.Ours().Transitions {
		words := strings.NewReplacer("%s", "…", "%[1]s", "…", "%[2]s", "…").Replace(transition.Says)
		if len(transition.Guards) == 0 {
			fmt.Fprintf(&text, "| **%s**: %s | nothing | |\n", transition.Name, words)
		}
		for at, guard := range transition.Guards {
			label := ""
			if at == 0 {
				label = fmt.Sprintf("**%s**: %s", transition.Name, words)
			}
			reason := reasons[proof.Removal{Transition: transition.Name, Name: guard.Name}]
			fmt.Fprintf(&text, "| %s | %s | %s |\n", label, guard.Name, reason[1])
		}
	}
	return text.String()
}

func invariantTable(reasons map[proof.Removal][2]string) string {
	var text strings.Builder
	text.WriteString("| conjunct | what it says | without it, this step breaks that |\n|---|---|---|\n")
	images := map[string]bool{}
	for _, conjunct := range proof.Ours().Invariant {
		if name, image := strings.CutSuffix(conjunct.Name, ", images"); image {
			images[name] = true
		}
	}
	for _, conjunct := range proof.Ours().Invariant {
		if strings.HasSuffix(conjunct.Name, ", images") {
			continue
		}
		too := ""
		if images[conjunct.Name] {
			too = " *Of images, too.*"
		}
		reason := reasons[proof.Removal{Name: conjunct.Name, Images: images[conjunct.Name]}]
		fmt.Fprintf(&text, "| %s | %s%s | %s → %s |\n", conjunct.Name, conjunct.Says, too, reason[0], reason[1])
	}
	return text.String()
}

func promiseTable() string {
	var text strings.Builder
	text.WriteString("| promise | the statement about states |\n|---|---|\n")
	for _, promise := range proof.Ours().Promises {
		fmt.Fprintf(&text, "| %s | %s |\n", promise.Name, promise.Says)
	}
	return text.String()
}

func variantTable() string {
	var text strings.Builder
	text.WriteString("| variant | deviates from | what it does | what breaks |\n|---|---|---|---|\n")
	for _, v := range proof.Variants() {
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s → %s |\n", v.Name, v.Of, v.Says, v.By, v.Breaks)
	}
	return text.String()
}
