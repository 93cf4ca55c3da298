package bench

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// Plan says what message i of a load is, and when it is sent and due, without keeping any. It is not for two goroutines
// at once: take a Clone for each.
type Plan struct {
	load  *Load
	start time.Time
	count int

	draws source
	zipf  *rand.Zipf // nil unless keys are skewed
	pool  []byte     // what values are filled with
}

// NewPlan returns the plan of a load that begins at an instant. Deadlines are whole milliseconds, because some services
// keep no more.
func NewPlan(load *Load, start time.Time) *Plan {
	p := &Plan{load: load, start: start.Truncate(time.Millisecond), count: load.Messages(), pool: filling(load.Seed)}
	return p.Clone()
}

// Clone returns a plan of the same messages for another goroutine.
func (p *Plan) Clone() *Plan {
	c := &Plan{load: p.load, start: p.start, count: p.count, pool: p.pool}
	if p.load.Skew != 0 {
		c.zipf = rand.NewZipf(rand.New(&c.draws), p.load.Skew, 1, uint64(p.load.Keys-1)) //nolint:gosec // is positive
	}
	return c
}

// Messages returns how many there are.
func (p *Plan) Messages() int { return p.count }

// SendAt returns when message i is to be sent, as a time since the start. It is the instant at which the area under
// the curve of the rate is i messages.
func (p *Plan) SendAt(i int) time.Duration {
	l, n := p.load, float64(i)
	from := l.start()
	slope := 0.0
	if l.Shape == Ramp {
		slope = (l.Rate - l.From) / l.Duration.Seconds()
	}
	switch {
	case l.Shape == Burst && l.Rate == 0:
		return 0
	case slope == 0:
		return time.Duration(n / from * float64(time.Second))
	}
	// from*t + slope/2*t² = n, in the form that does not subtract what is almost equal
	t := 2 * n / (from + math.Sqrt(max(from*from+2*slope*n, 0)))
	if n == 0 {
		t = 0
	}
	return min(time.Duration(t*float64(time.Second)), l.Duration)
}

// Deadline returns the deadline of message i.
func (p *Plan) Deadline(i int) time.Time {
	if p.load.Shape == Burst {
		return p.start.Add(p.load.Lead).Truncate(time.Millisecond)
	}
	delay := time.Duration(p.load.Delay.at(p.draw(i, drawDelay)))
	return p.start.Add(p.SendAt(i) + delay).Truncate(time.Millisecond)
}

// Due returns when the service is to let message i out.
func (p *Plan) Due(i int) time.Time { return p.Deadline(i).Add(-p.load.Advance) }

// Last returns the latest instant at which a message may be due.
func (p *Plan) Last() time.Time {
	if p.load.Shape == Burst {
		return p.Due(0)
	}
	return p.start.Add(p.load.Duration + time.Duration(p.load.Delay.High) - p.load.Advance)
}

// Measured reports whether message i counts for figures of speed.
func (p *Plan) Measured(i int) bool { return p.SendAt(i) >= p.load.WarmUp }

// Twice reports whether message i is submitted twice.
func (p *Plan) Twice(i int) bool { return p.load.Twice > 0 && p.draw(i, drawTwice) < p.load.Twice }

// Route returns the number of the route that message i goes.
func (p *Plan) Route(i int) int {
	return min(int(p.draw(i, drawRoute)*float64(p.load.Routes)), p.load.Routes-1)
}

// ID returns the id of message i.
func (p *Plan) ID(i int) string { return p.load.Run + "-" + strconv.Itoa(i) }

// Key returns the key of message i.
func (p *Plan) Key(i int) []byte {
	switch {
	case p.load.Keys == 0:
		return []byte(p.ID(i))
	case p.zipf != nil:
		p.draws.state = p.mixed(i, drawKey)
		return strconv.AppendUint([]byte("key-"), p.zipf.Uint64(), 10)
	}
	return strconv.AppendInt([]byte("key-"), int64(p.draw(i, drawKey)*float64(p.load.Keys)), 10)
}

// Size returns how many bytes the value of message i has.
func (p *Plan) Size(i int) int { return int(p.load.Size.at(p.draw(i, drawSize))) }

// What is drawn for a message.
const (
	drawDelay = iota + 1
	drawSize
	drawKey
	drawTwice
	drawRoute
	drawFilling
)

// draw returns a number from 0 up to 1, always the same for one message and one purpose.
func (p *Plan) draw(i, what int) float64 { return float64(p.mixed(i, what)>>11) / (1 << 53) }

func (p *Plan) mixed(i, what int) uint64 {
	return mix(p.load.Seed ^ mix(uint64(i)<<4|uint64(what))) //nolint:gosec // a number of a message is positive
}

// mix is the output function of SplitMix64: each bit of x changes half of the bits of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// source is a source of random numbers that can begin anywhere.
type source struct{ state uint64 }

// Uint64 draws a number.
func (s *source) Uint64() uint64 {
	s.state = mix(s.state)
	return s.state
}
