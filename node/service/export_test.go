package service

import (
	"fmt"
	"time"
)

// What the tests use from outside of the package.

const ReminderInterval = reminderInterval

var (
	EditDistance = editDistance
	Cause        = cause

	WindowForPeers = windowForPeers
)

// Shown returns all that the log at the start and the API say of the settings.
func (c *Config) Shown() string { return fmt.Sprint(c.describe(), c.effective()) }

func (r *Reporter) SetBehind(records int64)               { r.behind = func() int64 { return records } }
func (r *Reporter) Unreadable(err error)                  { r.unreadable(err) }
func (r *Reporter) Limits() (settle, quiet time.Duration) { return r.settle, r.quiet }
