package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	main "chronos/cmd/chronos"
	configured "chronos/node/service"
)

// Goal: every command that a page shows is one that this program understands. Method: each line of a block for a shell,
// and each command that the text mentions, is parsed, and not run.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```(?:sh|console|bash)\n(.*?)```")
	inline := regexp.MustCompile("`(chronos [a-z]+(?:\\s[^`]*)?)`")
	needs := regexp.MustCompile("missing value|needs a value|missing flags|^expected ")
	seen := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var lines, mentioned []string
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.Split(strings.ReplaceAll(found[1], "\\\n", " "), "\n")...)
		}
		for _, found := range inline.FindAllStringSubmatch(string(text), -1) {
			mentioned = append(mentioned, strings.ReplaceAll(found[1], "\n", " "))
		}
		for i, line := range append(lines, mentioned...) {
			for _, command := range commandsOf(line) {
				seen++
				err := main.Parses(command)
				// In a sentence a command is mentioned, perhaps without all that it needs.
				if err == nil || command[0] == "history" || i >= len(lines) && needs.MatchString(err.Error()) {
					continue
				}
				t.Errorf("%s: chronos %s: %v", filepath.Base(page), strings.Join(command, " "), err)
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d commands are found: are they written otherwise now?", seen)
	}
}

// Goal: every configuration that a page shows is one that a node starts with. Method: each block with routes or lanes
// is read as a file; secrets are in a file of this test, and where there are no routes, one is added.
func TestConfigurationsOfPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	file := regexp.MustCompile(`((?:secret|password)-file:) *\S+`)
	secret := writeFile(t, "secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	seen := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			shown := "\n" + file.ReplaceAllString(found[1], "$1 "+secret)
			if !strings.Contains(shown, "\nroutes:") && !strings.Contains(shown, "\nlanes:") {
				continue
			}
			seen++
			if !strings.Contains(shown, "\nroutes:") && !strings.Contains(shown, "metaswitch-listen") {
				shown += "routes: [{input: in, output: out, targets: [mails.*, night.*, 'http:*']}]\n"
			}
			got, err := configured.Read(configured.Run, map[string]configured.Value{
				"config": configured.FlagValue("config", writeFile(t, "c.yaml", shown)),
			}, []string{"CHRONOS_STORE=" + aStore})
			if err == nil {
				_, err = got.Config()
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(page), err, shown)
			}
		}
	}
	if seen < 7 {
		t.Errorf("%d configurations are found: are they written otherwise now?", seen)
	}
}

// commandsOf returns the arguments of each chronos in a line of a shell.
func commandsOf(line string) (commands [][]string) {
	line, _, _ = strings.Cut(strings.TrimPrefix(line, "$ "), " #")
	for _, part := range regexp.MustCompile(`&&|\|\||[;|&]`).Split(unquote(line), -1) {
		words := strings.Fields(part)
		for len(words) > 0 && strings.Contains(words[0], "=") {
			words = words[1:]
		}
		if len(words) < 2 || filepath.Base(words[0]) != "chronos" {
			continue
		}
		for i, word := range words {
			if regexp.MustCompile(`^\d?[<>]`).MatchString(word) {
				words = words[:i]
				break
			}
			words[i] = strings.ReplaceAll(word, "\x00", " ")
		}
		commands = append(commands, words[1:])
	}
	return commands
}

// unquote returns a line without its quotes and what is put in by $(...); a blank in them is a NUL, and what else means
// something to a shell is an x.
func unquote(line string) string {
	inside := func(text string) string {
		return strings.NewReplacer(" ", "\x00", ";", "x", "|", "x", "&", "x", "<", "x", ">", "x").Replace(text)
	}
	line = regexp.MustCompile(`\$\([^()]*\)`).ReplaceAllString(line, "2030-01-31T09:00:00Z")
	line = regexp.MustCompile(`'[^']*'`).ReplaceAllStringFunc(line, func(q string) string {
		return inside(strings.Trim(q, "'"))
	})
	return regexp.MustCompile(`"[^"]*"`).ReplaceAllStringFunc(line, func(q string) string {
		return inside(strings.Trim(q, `"`))
	})
}
