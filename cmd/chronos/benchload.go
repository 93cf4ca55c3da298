package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"chronos/cmd/chronos/bench"
	"chronos/node/calendar"
)

// readShape reads what the load is.
func (c *benchCommand) readShape(p *benchPlan) error {
	l := &p.load
	l.Seed, l.Keys, l.Skew = c.Seed, c.Keys, c.KeySkew
	set := map[bool]int{true: 1}
	switch n := set[c.Ramp != nil] + set[c.Burst != nil] + set[c.FindMax]; {
	case n > 1 || c.Ramp != nil && c.Rate != nil:
		return usagef("--rate, --ramp, --burst and --find-max exclude each other, " +
			"except that a burst and a search may have a --rate")
	case n == 0 && c.Rate == nil:
		return usagef("there is no load: set --rate, --ramp, --burst or --find-max")
	}
	l.Shape = bench.Steady
	if c.FindMax {
		l.Rate = firstRate
	}
	if c.Rate != nil {
		if *c.Rate == 0 {
			return usagef("--rate is 0: it must be above 0")
		}
		l.Rate = *c.Rate
	}
	var err error
	if c.Ramp != nil {
		l.Shape = bench.Ramp
		if l.From, l.Rate, err = ramp(string(*c.Ramp)); err != nil {
			return usagef("--ramp is %s: %v", shown(string(*c.Ramp)), err)
		}
	}
	if c.Burst != nil {
		l.Shape, l.Count = bench.Burst, *c.Burst
	}
	if err := c.readTimes(l); err != nil {
		return err
	}
	if l.Size, err = bench.ParseSpread(string(c.Size), parseNumber); err != nil {
		return usagef("--size is %s: %v", shown(string(c.Size)), err)
	}
	if l.Size.Mean > 0 {
		l.Size.Low = bench.MinSize
	}
	if l.Twice, err = parseShare(string(c.Twice)); err != nil {
		return usagef("--twice is %s: %v", shown(string(c.Twice)), err)
	}
	return nil
}

// firstRate is where a search begins unless --rate says otherwise.
const firstRate = 1000

// readTimes reads the times of a load.
func (c *benchCommand) readTimes(l *bench.Load) error {
	if l.Shape == bench.Burst {
		if c.WarmUp != nil {
			return usagef("--warm-up is set: a burst has none")
		}
		return benchDuration("in", c.In, &l.Lead)
	}
	if err := benchDuration("duration", c.Duration, &l.Duration); err != nil {
		return err
	}
	l.WarmUp = min(5*time.Second, l.Duration/5)
	if c.WarmUp != nil {
		if err := benchDuration("warm-up", *c.WarmUp, &l.WarmUp); err != nil {
			return err
		}
	}
	var err error
	if l.Delay, err = bench.ParseSpread(string(c.Delay), parseTime); err != nil {
		return usagef("--delay is %s: %v", shown(string(c.Delay)), err)
	}
	return nil
}

// readSearch reads what to look for.
func (c *benchCommand) readSearch(p *benchPlan) error {
	if !c.FindMax {
		return nil
	}
	within, err := parseShare(string(c.Within))
	if err != nil || within <= 0 {
		return usagef("--within is %s: it must be a share above 0, such as 5%%", shown(string(c.Within)))
	}
	var under time.Duration
	if err := benchDuration("p999-under", c.Under, &under); err != nil {
		return err
	}
	switch {
	case under <= 0:
		return usagef("--p999-under is %v: it must be above 0", under)
	case !(c.MaxRate >= p.load.Rate && c.MaxRate <= bench.MaxRate):
		return usagef("--max-rate is %v: it must be from %v, where the search begins, to %.0f",
			c.MaxRate, p.load.Rate, bench.MaxRate)
	case c.OnlySend:
		return usagef("--only-send and --find-max exclude each other")
	}
	p.under = bench.Millis(float64(under) / float64(time.Millisecond))
	p.search = &bench.Search{From: p.load.Rate, To: c.MaxRate, Within: within, Tries: 2}
	return nil
}

// ramp reads A..B.
func ramp(value string) (from, to float64, err error) {
	a, b, ok := strings.Cut(value, "..")
	if !ok {
		return 0, 0, fmt.Errorf("it must be two rates, such as 0..1000")
	}
	if from, err = parseNumber(a); err == nil {
		to, err = parseNumber(b)
	}
	return from, to, err
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 1e12 || n != n {
		return 0, fmt.Errorf("%s is not a number of 0 or more", shown(text))
	}
	return n, nil
}

func parseTime(text string) (float64, error) {
	d, err := calendar.ParseDuration(text)
	return float64(d), err
}

// parseShare reads 5%.
func parseShare(text string) (float64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(n >= 0 && n <= 100) {
		return 0, fmt.Errorf("it must be a share from 0%% to 100%%")
	}
	return n / 100, nil
}

// benchProgress tells a person how far a run is: on one line at a terminal, which is written over and over, and with a
// line every ten seconds elsewhere.
type benchProgress struct {
	out      io.Writer
	rewrites bool
	lines    int
}

// tell shows how far it is.
func (b *benchProgress) tell(p bench.Progress) {
	if b.lines++; !b.rewrites && b.lines%10 != 0 {
		return
	}
	late := ""
	if s := p.Second; s.P50 != nil {
		late = fmt.Sprintf(", lateness p50 %.1f ms, p99 %.1f ms, max %.1f ms", *s.P50, *s.P99, *s.Max)
	}
	taken := ""
	if p.Taken >= 0 {
		taken = fmt.Sprintf(", %d taken in", p.Taken)
	}
	wrong := ""
	if p.Doubled+p.Damaged > 0 {
		wrong = fmt.Sprintf(", %d DOUBLED, %d DAMAGED", p.Doubled, p.Damaged)
	}
	line := fmt.Sprintf("%3.0f s: %d of %d sent%s, %d came%s%s",
		p.Since.Seconds(), p.Sent, p.Messages, taken, p.Came, wrong, late)
	if b.rewrites {
		line = "\r\x1b[K" + line
	} else {
		line += "\n"
	}
	_, _ = io.WriteString(b.out, line) // It is only to pass the time.
}

// step tells what a try of a search has shown.
func (b *benchProgress) step(s *bench.Step) {
	b.clear()
	b.lines = 0
	what := "held"
	if !s.Held {
		what = "failed: " + s.Why
	}
	_, _ = fmt.Fprintf(b.out, "%.0f messages/s: %s\n", s.Rate, what)
}

// clear takes the line away.
func (b *benchProgress) clear() {
	if b.rewrites {
		_, _ = io.WriteString(b.out, "\r\x1b[K")
	}
}
