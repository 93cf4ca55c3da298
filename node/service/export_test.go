package service

import "time"

// What the tests use from outside of the package.

const ReminderInterval = reminderInterval

var EditDistance = editDistance

func (r *Reporter) Unreadable(err error)                  { r.unreadable(err) }
func (r *Reporter) Limits() (settle, quiet time.Duration) { return r.settle, r.quiet }
