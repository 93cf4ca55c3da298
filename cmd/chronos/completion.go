package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand prints what has a shell complete command lines.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says where it goes.
func (c *completionCommand) Help() string {
	return `Load it in the file with which the shell begins:

    bash  source <(chronos completion bash)                       in ~/.bashrc
    zsh   source <(chronos completion zsh)                        in ~/.zshrc, after compinit
    fish  chronos completion fish >~/.config/fish/completions/chronos.fish   once`
}

// Run prints it. The shell asks the program itself, by "chronos completion words", so that what it completes is what
// the program has.
func (c *completionCommand) Run(w *world) error {
	_, err := fmt.Fprint(w.stdout, map[string]string{
		"bash": `_chronos() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _chronos chronos
`,
		"zsh": `_chronos() {
  local -a found
  found=("${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -- $found; else _files; fi
}
compdef _chronos chronos
`,
		"fish": `complete -c chronos -a '(chronos completion words (commandline -opc)[2..] (commandline -ct))'
`,
	}[c.Shell])
	return err
}

// completions returns what the last of some words may become that stand behind the name of the program: commands, flags
// and the values of flags that have few.
func completions(at *kong.Node, words []string) (found []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var asks *kong.Flag // whose value is next
	for _, word := range words[:len(words)-1] {
		if asks != nil || word == "=" { // bash makes a word of it
			asks = nil
			continue
		}
		if strings.HasPrefix(word, "-") {
			if flag := flagNamed(at, word); flag != nil && !flag.IsBool() && !strings.Contains(word, "=") {
				asks = flag
			}
			continue
		}
		for _, child := range at.Children {
			if child.Name == word {
				at = child
				break
			}
		}
	}
	switch {
	case asks != nil:
		found = asks.EnumSlice()
	case strings.HasPrefix(last, "-"):
		for _, flag := range slices.Concat(at.AllFlags(true)...) {
			found = append(found, "--"+flag.Name)
		}
	default:
		for _, child := range at.Children {
			if !child.Hidden {
				found = append(found, child.Name)
			}
		}
		for _, argument := range at.Positional {
			found = append(found, argument.EnumSlice()...)
		}
	}
	found = slices.DeleteFunc(found, func(word string) bool { return word == "" || !strings.HasPrefix(word, last) })
	slices.Sort(found)
	return slices.Compact(found)
}

// flagNamed returns the flag of a word such as --in or -o; nil if there is none.
func flagNamed(at *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, flag := range slices.Concat(at.AllFlags(false)...) {
		if flag.Name == name || slices.Contains(flag.Aliases, name) || flag.Short != 0 && string(flag.Short) == name {
			return flag
		}
	}
	return nil
}
