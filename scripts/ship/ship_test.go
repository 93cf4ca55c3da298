// Package ship has what Chronos is shipped with: images, a compose file, a unit of systemd and a chart.
// scripts/ship/check asks the tools that they are for; the tests of this package ask what these can't know, and need no
// tool.
package ship_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"chronos/node/service"
)

// variables and keys return the settings of a node, by the names of their environment variables and of their keys.
func variables() (variables, keys map[string]bool) {
	variables, keys = map[string]bool{}, map[string]bool{}
	for _, s := range service.Table(service.Run | service.Probe) {
		variables[s.Variable()] = true
		keys[s.Name] = true
	}
	return variables, keys
}

// Every setting that a shipped file names is one that a node has.
func TestSettings(t *testing.T) {
	variables, keys := variables()
	if !variables["CHRONOS_STORE"] || !keys["admin-listen"] {
		t.Fatal("the table of settings is not what this test takes it for")
	}
	found := 0
	for _, name := range files(t) {
		text := read(t, name)
		for _, variable := range regexp.MustCompile(`CHRONOS_[A-Z_]+`).FindAllString(text, -1) {
			found++
			if !variables[variable] {
				t.Errorf("%s: %s is no setting of a node", name, variable)
			}
		}
	}
	if found < 8 {
		t.Errorf("%d settings are named, want more: this looks in the wrong place", found)
	}
	own := regexp.MustCompile(`(?m)^  "([a-z-]+)" |set \$own "([a-z-]+)"`).FindAllStringSubmatch(
		read(t, "helm/chronos/templates/_helpers.tpl"), -1)
	if len(own) != 5 {
		t.Errorf("the chart sets %d keys itself, want 5", len(own))
	}
	for _, match := range own {
		if key := match[1] + match[2]; !keys[key] {
			t.Errorf("the chart configures %s, which is no setting of a node", key)
		}
	}
}

// The chart has no defaults within config: Helm merges maps, so that nobody could take them away, and a node that is
// given routes beside a topic ends. What is written there in the examples, which the check renders and starts nodes on,
// is all that the documents teach.
func TestChartHasNoDefaults(t *testing.T) {
	_, keys := variables()
	config := func(name string) map[string]any {
		var values struct{ Config map[string]any }
		if err := yaml.Unmarshal([]byte(read(t, name)), &values); err != nil {
			t.Fatal(err)
		}
		return values.Config
	}
	if got := config("helm/chronos/values.yaml"); len(got) != 0 {
		t.Errorf("values.yaml has %v by default", got)
	}
	examples, err := filepath.Glob("values/*.yaml")
	if err != nil || len(examples) < 4 {
		t.Fatalf("the examples are %v, %v", examples, err)
	}
	taught := map[string]bool{}
	for _, name := range examples {
		for key := range config(name) {
			taught[key] = true
			if !keys[key] && key != "routes" && key != "lanes" {
				t.Errorf("%s has %s, which is no setting of a node", name, key)
			}
		}
	}
	for _, key := range []string{"routes", "api-listen", "brokers", "store", "input-topic"} {
		if !taught[key] {
			t.Errorf("no example has %s", key)
		}
	}
}

// Every file of YAML can be read, and names each key once. Templates of the chart are for Helm to read.
func TestFilesCanBeRead(t *testing.T) {
	for _, name := range append(files(t), "../../.goreleaser.yaml", "../../.github/workflows/ci.yml",
		"../../.github/workflows/release.yml") {
		if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" || strings.Contains(name, "templates") {
			continue
		}
		decoder := yaml.NewDecoder(bytes.NewReader([]byte(read(t, name))))
		var err error
		for documents := 0; err == nil; documents++ {
			var document any
			if err = decoder.Decode(&document); errors.Is(err, io.EOF) && documents == 0 {
				t.Errorf("%s is empty", name)
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is mounted into a container is there.
func TestComposeMounts(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Volumes []string
			Ports   []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	mounts := 0
	for name, service := range compose.Services {
		for _, volume := range service.Volumes {
			mounts++
			source, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join("compose", source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is published as %s, for everybody who reaches this machine", name, port)
			}
		}
	}
	if mounts < 4 {
		t.Errorf("%d mounts, want more", mounts)
	}
}

// files returns the shipped files.
func files(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, entry os.DirEntry, err error) error {
		link := entry.Type()&os.ModeSymlink != 0 // to a file of another folder, which has tests of its own
		if err == nil && !entry.IsDir() && !link && filepath.Ext(name) != ".go" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
