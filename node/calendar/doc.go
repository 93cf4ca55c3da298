// Package calendar reads what people write about time: how long, how often, and when something is open. It has no
// clock: the same words always mean the same, and whoever asks what comes next says after which instant.
//
// # Durations
//
// ParseDuration reads those of settings and commands. They are Go's, with days and weeks, because nobody thinks of a
// reminder in 168h:
//
//	duration = [sign] 1*(number unit) / [sign] "0"
//	number   = digits ["." digits] / "." digits
//	unit     = "w" / "d" / "h" / "m" / "s" / "ms" / "us" / "µs" / "ns"
//
// ParseDelay reads those of messages: the same without a sign, or ISO 8601, which other languages write:
//
//	delay = duration
//	      / "P" [n "W"] [n "D"] ["T" [n "H"] [n "M"] [n "S"]]   at least one part; the last may have a fraction
//
// A day has 24 hours and a week 7 days, always: a duration is a count of seconds, which knows no time zone. What is to
// happen at the same time of the day tomorrow, although the clocks are put forward tonight, is an instant of its own.
// Months and years are no durations, because no two are alike.
//
// # Series
//
// A Series is what recurs: a rule, where its clock hangs, when it begins and ends, and what becomes of occurrences that
// were missed. The rule is an interval, or a cron expression of five fields, or of six with the seconds first:
//
//	every 90s                 an interval, at least a second; counted from the first occurrence
//	30 9 * * mon-fri          minute, hour, day of the month, month, day of the week
//	15 30 9 * * mon-fri       second, minute, hour, ...
//	@daily                    one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually
//
// A field is a list of values, ranges (1-5) and steps (*/15, 8-18/2, 5/10); months and weekdays have names; Sunday is 0
// and 7. In the days of the month L is the last, LW the last from Monday to Friday, 15W the nearest such day to the
// 15th in its month; in the days of the week fri#2 is the second Friday and friL the last. If both kinds of day are
// given, a day counts that is in either, as in every cron since Vixie's.
//
// The instants of a series are its first occurrence and, after it, what the rule yields. They depend on nothing
// else: not on when a message was published, nor on when anybody asked. So nothing drifts, and the n-th occurrence is
// the same instant on every node. The occurrence at the n-th instant has the sequence number n whether the ones before
// were published or passed over.
//
// # When clocks are put forward and back
//
// A zone's wall clock leaves times out, and shows times twice. What a cron expression yields then depends on whether
// its hours are all 24:
//
//   - Every hour of the day ("30 * * * *"): it follows the clock as the clock goes. A time that is left out does
//     not come; one that is shown twice comes twice. Half past is once in each hour that passes.
//   - Otherwise it names times of the day, and each comes once a day. A time that is left out comes at the first
//     instant after the gap, where several become one; a time that is shown twice comes the first time.
//
// So a daily job is neither lost nor done twice, and an hourly one neither bunches nor pauses. See
// docs/adr/0013-series.md for what others do. The rules of the zones are the machine's, or those that are linked into
// the program where the machine has none.
//
// # Windows
//
// A Window is when something is open, in words:
//
//	window    = base ["except" clauses] ["in" zone]
//	base      = "always" / "never" / clauses
//	clauses   = clause *((";" / "," / "and") clause)
//	clause    = hours days / days [hours] / moment "to" moment    without days in exceptions: every day
//	hours     = time "to" time / "all day" / "before" time / "after" time / "outside" hours, several with "and"
//	days      = weekdays, days of months, dates, several with "and"; ["in" months] ["from" date ["to" date]]
//	moment    = (weekday / date) time                             monday 9am to friday 5pm
//
// docs/WINDOWS.md teaches it by example. Understood, a window is a set of readings of a wall clock, to the minute:
// hours that begin on some days, and may run into the days after, less those of the exceptions. It is open at an
// instant if the clock of its zone then shows one of the set. So a time that the clock leaves out is never open, and
// one that it shows twice is open twice; nothing else needs to be said about changes of clocks. See
// docs/adr/0016-windows-in-words.md.
//
// Words become tokens (token.go), tokens become clauses (windowparse.go, hoursparse.go, daysparse.go), clauses have a
// normal form (windowtext.go) and mark the minutes of a day (days.go), and window.go finds where those change.
package calendar
