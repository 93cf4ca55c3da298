package node_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// instructionTable returns the table of docs/ALGORITHM.md: for each state of a message and each action on it the
// outcome, and what is kept of the message afterwards. It asks Item.Decide, and knows no rule itself.
func instructionTable() string {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	waiting := func(change func(k *node.Kept)) *node.Kept {
		k := &node.Kept{Incarnation: uuid.UUID{1}, Deadline: now.Add(time.Hour), Due: now.Add(time.Hour)}
		change(k)
		return k
	}
	states := []struct {
		name   string
		before *node.Kept
	}{
		{"there is none", nil},
		{"waits, and nobody has claimed it since it was stored", waiting(func(*node.Kept) {})},
		{"ready", waiting(func(k *node.Kept) { k.Claimed, k.Attempts = true, 1 })},
		{"waits again, after a claim that may have published it", waiting(func(k *node.Kept) { k.Attempts = 1 })},
		{"waits, *bound*", waiting(func(k *node.Kept) { k.Bound = true })},
		{"of a series, ready", waiting(func(k *node.Kept) { k.Claimed, k.Attempts, k.Sequence = true, 1, 2 })},
		{"of a series, waits, *bound*", waiting(func(k *node.Kept) { k.Bound, k.Sequence = true, 2 })},
		{"is another one than *only* names", waiting(func(*node.Kept) {})},
	}
	actions := []node.Action{node.Schedule, node.Replace, node.Reschedule, node.Cancel, node.FireNow}
	var text strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	names := []string{"the message"}
	for _, action := range actions {
		names = append(names, "`"+action.String()+"`")
	}
	row(names...)
	text.WriteString(strings.Repeat("|---", len(names)) + "|\n")
	for _, state := range states {
		cells := []string{state.name}
		for _, action := range actions {
			item := node.Item{Action: action, Message: node.Message{Incarnation: uuid.UUID{2}, Deadline: now}}
			if strings.Contains(state.name, "*only*") {
				item.Only = uuid.UUID{3}
			}
			v := item.Decide(state.before)
			cells = append(cells, fmt.Sprintf("`%s`: %s", v.Outcome, effect(&item, v)))
		}
		row(cells...)
	}
	return text.String()
}

// effect says in words what a verdict does.
func effect(item *node.Item, v node.Verdict) string {
	before, after := v.Before, v.After
	if after == nil {
		if before == nil {
			return "nothing"
		}
		return "removed"
	}
	var words []string
	switch {
	case v.Brings:
		words = append(words, "stored")
	case after.Incarnation != before.Incarnation && after.Deadline.Equal(item.Deadline):
		words = append(words, "moved")
	}
	if after.Stopped && (before == nil || !before.Stopped) {
		words = append(words, "*stopped*")
	}
	if after.Bound && (before == nil || !before.Bound) {
		words = append(words, "*bound*")
	}
	if after.Former && (before == nil || !before.Former) {
		words = append(words, "*former*")
	}
	if len(words) == 0 && v.Outcome == node.NotFound {
		return "nothing"
	}
	if len(words) == 0 {
		return "as it was"
	}
	return strings.Join(words, ", ")
}

// TestInstructionTable asks that the table in docs/ALGORITHM.md is the one that the code follows. CHRONOS_UPDATE=1
// writes it anew.
func TestInstructionTable(t *testing.T) {
	const (
		page  = "../docs/ALGORITHM.md"
		begin = "<!-- Made from Item.Decide by `CHRONOS_UPDATE=1 go test ./node -run TestInstructionTable`. -->\n\n"
		end   = "\n<!-- The end of what is made. -->\n"
	)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the table, between %q and %q", page, begin, end)
	}
	want := instructionTable()
	if os.Getenv("CHRONOS_UPDATE") != "" {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("docs/ALGORITHM.md is out of date: run CHRONOS_UPDATE=1 go test ./node. It should have\n%s", want)
	}
}
