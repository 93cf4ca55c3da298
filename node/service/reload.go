package service

import (
	"log/slog"
	"maps"
	"slices"
)

// SetLogLevel sets the level of what Logger has returned to that of other settings, and returns it.
func (s *Settings) SetLogLevel(other *Settings) slog.Level {
	level := other.LogLevel(slog.LevelInfo)
	s.level.Set(level)
	return level
}

// Differs returns what the settings of a node would have to be restarted for, to become those of another configuration:
// the names of settings, and of the routes, lanes and windows of the file, in order. The level of the log is none of
// them (SetLogLevel).
func (c *Config) Differs(other *Config) []string {
	differ := map[string]bool{}
	ours, theirs := c.effective(), other.effective()
	for _, all := range []map[string]string{ours, theirs} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			differ[name] = ours[name] != theirs[name]
		}
	}
	for _, row := range Table(Run) {
		before, after := row.value(c.settings), row.value(other.settings)
		if before.Text != after.Text || before.IsSet != after.IsSet { // a secret, for one, which is not shown
			differ[row.Name] = true
		}
	}
	differ["log-level"] = false
	maps.DeleteFunc(differ, func(_ string, differs bool) bool { return !differs })
	return slices.Sorted(maps.Keys(differ))
}
