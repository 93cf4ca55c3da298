package main

import (
	"context"
	"time"

	"chronos/node"
)

// What the tests use from outside of the package.

// Reporter is the reporter.
type Reporter = reporter

const (
	ReminderInterval = reminderInterval
	AnswerTimeout    = answerTimeout
	LongestField     = longestField
)

func (r *reporter) Observe(event node.Event)  { r.observe(event) }
func (r *reporter) Watch(ctx context.Context) { r.watch(ctx) }
func (r *reporter) Summary()                  { r.summary() }
func (r *reporter) Unreadable(err error)      { r.unreadable(err) }
func (r *reporter) Unavailable(port node.Port, call string, err error) {
	r.unavailable(port, call, err)
}
func (r *reporter) Available(port node.Port)              { r.available(port) }
func (r *reporter) Limits() (settle, quiet time.Duration) { return r.settle, r.quiet }
func Main()                                               { main() }
func SetVersion(v string) (before string)                 { before, version = version, v; return before }

var (
	Run          = run
	NewReporter  = newReporter
	Readable     = readable
	ReadableWord = readableWord
	Lateness     = lateness
	EditDistance = editDistance
	SettingHelp  = settingHelp
	PrintRecord  = printRecord
	BuildVersion = buildVersion
	Typed        = typed
)

// SettingNames returns the names of all settings.
func SettingNames() map[string]bool {
	parser, err := newParser(new(commands))
	if err != nil {
		panic(err)
	}
	return settingNames(parser)
}
