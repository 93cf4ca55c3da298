package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker.
var version string

// versionCommand prints the version.
type versionCommand struct {
	Output string `short:"o" enum:"line,json" default:"line" placeholder:"FORM" help:"line, for people, or json."`
}

// Run prints one line, or the same as JSON.
func (c *versionCommand) Run(w *world) error {
	if c.Output == "json" {
		return printJSON(w.stdout, struct {
			Version string `json:"version"`
			Go      string `json:"go"`
			OS      string `json:"os"`
			Arch    string `json:"arch"`
		}{currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH})
	}
	_, err := fmt.Fprintf(w.stdout, "chronos %s (%s, %s/%s)\n",
		currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// currentVersion returns the version that the linker was told, or else what the build knows.
func currentVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nextVersion
	}
	return buildVersion(info)
}

// nextVersion is what the source is on its way to. It is the version of a build that knows of no other, as those of
// "go run" and of a source without its history; a build that knows its commit says that as well.
const nextVersion = "0.1.0-dev"

// buildVersion returns the version of the module, or else the next one with the commit, and whether there were changes
// since, as far as that is known.
func buildVersion(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	switch {
	case revision == "":
		return nextVersion
	case settings["vcs.modified"] == "true":
		return nextVersion + "+" + revision + ".dirty"
	default:
		return nextVersion + "+" + revision
	}
}
