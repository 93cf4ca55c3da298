package ship_test

import (
	"path/filepath"
	"regexp"
	"testing"
)

// Every action of a workflow is named by a commit, which nobody can change: a tag can be moved to another one, and the
// release may write to the repository and sign. Which release the commit is stands behind it.
func TestActionsAreCommits(t *testing.T) {
	workflows, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	uses := regexp.MustCompile(`(?m)^ *-? *uses: *(.*)$`)
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z/-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	found := 0
	for _, name := range workflows {
		for _, action := range uses.FindAllStringSubmatch(read(t, name), -1) {
			if found++; !pinned.MatchString(action[1]) {
				t.Errorf("%s uses %s: name a commit and, behind it, its release, such as OWNER/NAME@COMMIT # v1.2.3",
					filepath.Base(name), action[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d actions are used, want more: this looks in the wrong place", found)
	}
}
