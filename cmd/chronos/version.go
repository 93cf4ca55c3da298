package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker.
var version string

// versionCommand prints the version.
type versionCommand struct{}

// Run prints one line.
func (c *versionCommand) Run(w *world) error {
	_, err := fmt.Fprintf(w.stdout, "chronos %s (%s, %s/%s)\n",
		currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// currentVersion returns the version that the linker was told, or else what the build knows: the version of the module,
// or the commit.
func currentVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "unknown"
}
