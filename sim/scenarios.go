package sim

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed testdata/scenarios
var scenarios embed.FS

// Scenarios returns the named scenarios, in the order of their names: one for each hazard that can occur, and one for
// each class of faults.
func Scenarios() ([]*Script, error) {
	return Scripts(scenarios)
}

// ScenarioByName returns the scenario of that name.
func ScenarioByName(name string) (*Script, error) {
	all, err := Scenarios()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no scenario %q", name)
}

// Scripts reads all scripts in a tree of files, in the order of their paths.
func Scripts(files fs.FS) ([]*Script, error) {
	var scripts []*Script
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".txt") {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		script, err := ReadScript(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		script.Name = strings.TrimSuffix(entry.Name(), ".txt")
		scripts = append(scripts, script)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read scripts: %w", err)
	}
	return scripts, nil
}
