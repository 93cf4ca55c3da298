package calendar_test

import (
	"fmt"
	"strings"
	"time"

	"chronos/node/calendar"
)

// must makes a series that is known to be right.
func must(w calendar.Words) *calendar.Series {
	s, err := calendar.New(w)
	if err != nil {
		panic(err)
	}
	return s
}

// at is an instant in UTC, to the minute.
func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

// show prints the first occurrences of a rule, as instants and as a clock in the zone shows them.
func show(n int, w calendar.Words) {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		panic(err)
	}
	s := must(w)
	fmt.Println(strings.TrimSpace(w.Repeat + " " + w.Zone))
	for o, more := s.First(), true; more && n > 0; n-- {
		local := o.At.In(zone).Format("Mon 15:04 MST")
		fmt.Printf("  %d  %s  %s\n", o.Sequence, o.At.Format("2006-01-02 15:04:05Z"), local)
		o, more = s.Following(o)
	}
}

func Example_rules() {
	asked := at("2030-01-01 10:00") // a Tuesday
	show(3, calendar.Words{Repeat: "every 1h30m", Asked: asked})
	show(3, calendar.Words{Repeat: "every 1h30m", First: at("2030-01-01 10:10")})
	show(2, calendar.Words{Repeat: "30 9 * * mon-fri", Zone: "Europe/Berlin", Asked: asked})
	show(2, calendar.Words{Repeat: "15 30 9 L * ?", Asked: asked})
	show(2, calendar.Words{Repeat: "0 9 * * fri#2", Asked: asked})
	show(2, calendar.Words{Repeat: "@monthly", First: at("2030-01-01 10:10"), Count: "2"})
	// Output:
	// every 1h30m
	//   1  2030-01-01 11:30:00Z  Tue 11:30 UTC
	//   2  2030-01-01 13:00:00Z  Tue 13:00 UTC
	//   3  2030-01-01 14:30:00Z  Tue 14:30 UTC
	// every 1h30m
	//   1  2030-01-01 10:10:00Z  Tue 10:10 UTC
	//   2  2030-01-01 11:40:00Z  Tue 11:40 UTC
	//   3  2030-01-01 13:10:00Z  Tue 13:10 UTC
	// 30 9 * * mon-fri Europe/Berlin
	//   1  2030-01-02 08:30:00Z  Wed 09:30 CET
	//   2  2030-01-03 08:30:00Z  Thu 09:30 CET
	// 15 30 9 L * ?
	//   1  2030-01-31 09:30:15Z  Thu 09:30 UTC
	//   2  2030-02-28 09:30:15Z  Thu 09:30 UTC
	// 0 9 * * fri#2
	//   1  2030-01-11 09:00:00Z  Fri 09:00 UTC
	//   2  2030-02-08 09:00:00Z  Fri 09:00 UTC
	// @monthly
	//   1  2030-01-01 10:10:00Z  Tue 10:10 UTC
	//   2  2030-02-01 00:00:00Z  Fri 00:00 UTC
}

// New York put its clocks forward from 02:00 to 03:00 on Sunday 8 March 2026, and back from 02:00 to 01:00 on Sunday 1
// November.
func Example_clocks() {
	spring, autumn := at("2026-03-08 06:00"), at("2026-11-01 05:00")
	const zone = "America/New_York"
	show(2, calendar.Words{Repeat: "30 2 * * *", Zone: zone, Asked: spring})
	show(2, calendar.Words{Repeat: "*/15 2 * * *", Zone: zone, Asked: spring})
	show(3, calendar.Words{Repeat: "30 * * * *", Zone: zone, Asked: spring})
	show(2, calendar.Words{Repeat: "30 1 * * *", Zone: zone, Asked: autumn})
	show(3, calendar.Words{Repeat: "30 * * * *", Zone: zone, Asked: autumn})
	// Output:
	// 30 2 * * * America/New_York
	//   1  2026-03-08 07:00:00Z  Sun 03:00 EDT
	//   2  2026-03-09 06:30:00Z  Mon 02:30 EDT
	// */15 2 * * * America/New_York
	//   1  2026-03-08 07:00:00Z  Sun 03:00 EDT
	//   2  2026-03-09 06:00:00Z  Mon 02:00 EDT
	// 30 * * * * America/New_York
	//   1  2026-03-08 06:30:00Z  Sun 01:30 EST
	//   2  2026-03-08 07:30:00Z  Sun 03:30 EDT
	//   3  2026-03-08 08:30:00Z  Sun 04:30 EDT
	// 30 1 * * * America/New_York
	//   1  2026-11-01 05:30:00Z  Sun 01:30 EDT
	//   2  2026-11-02 06:30:00Z  Mon 01:30 EST
	// 30 * * * * America/New_York
	//   1  2026-11-01 05:30:00Z  Sun 01:30 EDT
	//   2  2026-11-01 06:30:00Z  Sun 01:30 EST
	//   3  2026-11-01 07:30:00Z  Sun 02:30 EST
}

// The service stops on Monday at 11:59 and is back on Tuesday at 12:10.
func Example_outage() {
	back := at("2030-01-08 12:10")
	for _, missed := range []string{"one", "all", "skip"} {
		s := must(calendar.Words{Repeat: "every 6h", First: at("2030-01-07 00:00"), Missed: missed})
		due := calendar.Occurrence{Sequence: 3, At: at("2030-01-07 12:00")}
		fmt.Println("every 6h, missed:", missed)
		for now := back; due.At.Before(at("2030-01-08 19:00")); now = now.Add(time.Second) {
			now = later(now, due.At)
			switch verdict := s.Judge(due, now, calendar.Tolerance, 0); verdict.Action {
			case calendar.Publish:
				fmt.Printf("  %d  of %s  comes out on %s\n", due.Sequence, due.At.Format("Mon 15:04"),
					now.Format("Mon 15:04:05"))
				due, _ = s.Following(due)
			default:
				fmt.Printf("  %d to %d are passed over\n", due.Sequence, due.Sequence+verdict.Passed-1)
				due = verdict.Next
			}
		}
	}
	// Output:
	// every 6h, missed: one
	//   3 to 6 are passed over
	//   7  of Tue 12:00  comes out on Tue 12:10:01
	//   8  of Tue 18:00  comes out on Tue 18:00:00
	// every 6h, missed: all
	//   3  of Mon 12:00  comes out on Tue 12:10:00
	//   4  of Mon 18:00  comes out on Tue 12:10:01
	//   5  of Tue 00:00  comes out on Tue 12:10:02
	//   6  of Tue 06:00  comes out on Tue 12:10:03
	//   7  of Tue 12:00  comes out on Tue 12:10:04
	//   8  of Tue 18:00  comes out on Tue 18:00:00
	// every 6h, missed: skip
	//   3 to 7 are passed over
	//   8  of Tue 18:00  comes out on Tue 18:00:00
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
