package bench

import (
	"fmt"
	"math"
	"time"
)

// Shape is how a load is spread over time.
type Shape string

// The shapes.
const (
	Steady Shape = "steady" // the same rate all the time
	Ramp   Shape = "ramp"   // a rate that grows or shrinks evenly
	Burst  Shape = "burst"  // all are due at one instant
)

// Load is what is asked for. Together with its seed it says everything about every message.
type Load struct {
	Shape Shape `json:"shape"`

	// Rate is how many messages are sent in a second, at the end of a ramp, which begins with From. A burst is sent
	// as fast as it goes if Rate is 0.
	Rate float64 `json:"rate"`
	From float64 `json:"from,omitempty"`

	// Duration is how long a steady load or a ramp is sent.
	Duration time.Duration `json:"duration_ns,omitempty"`

	// Count is how many messages a burst has, and Lead is how long after the start all of them are due.
	Count int           `json:"count,omitempty"`
	Lead  time.Duration `json:"lead_ns,omitempty"`

	// Delay is how long after it is to be sent a message is due, in nanoseconds; not for a burst.
	Delay Spread `json:"delay_ns"`

	// Size is how many bytes a value has. A value of fewer than MinSize bytes can't say which message it is of.
	Size Spread `json:"size_bytes"`

	// Keys is how many keys there are; 0 for one of its own for each message. Skew is the exponent of Zipf's law, above
	// 1, by which they are drawn; 0 for all alike.
	Keys int     `json:"keys,omitempty"`
	Skew float64 `json:"key_skew,omitempty"`

	// Twice is the share of messages that are submitted twice, one after the other, with all that they have, as a
	// producer does that repeats what was not acknowledged. A service lets one of them come out.
	Twice float64 `json:"twice,omitempty"`

	// WarmUp is how long the messages that are to be sent at first are not measured.
	WarmUp time.Duration `json:"warm_up_ns"`

	// Advance is how long before its deadline the service means to let a message out: its timing advance.
	Advance time.Duration `json:"advance_ns"`

	// Routes is over how many routes the messages are spread, all alike.
	Routes int `json:"routes"`

	// Run names the run, in each of its ids and values. Seed is what all that is drawn is drawn from.
	Run  string `json:"run"`
	Seed uint64 `json:"seed"`
}

// Bounds on a load, whatever is asked for.
const (
	MinSize = 40       // what a value says about itself
	MaxSize = 64 << 20 // beyond what any Kafka takes
	MaxKeys = 100_000_000
	MaxRate = 10_000_000.0
)

// Messages returns how many messages there are, each counted once.
func (l *Load) Messages() int {
	if l.Shape == Burst {
		return l.Count
	}
	return int(math.Round((l.start() + l.Rate) / 2 * l.Duration.Seconds()))
}

// start returns the rate at the start.
func (l *Load) start() float64 {
	if l.Shape == Ramp {
		return l.From
	}
	return l.Rate
}

// Validate returns an error, one sentence that names the flag, if there is no such load.
func (l *Load) Validate() error {
	wrong := func(format string, args ...any) error { return fmt.Errorf(format, args...) }
	number := func(x float64) bool { return !math.IsNaN(x) && x >= 0 && x <= MaxRate }
	burst := l.Shape == Burst
	switch {
	case !number(l.Rate) || !number(l.From):
		return wrong("the rate is from 0 to %.0f messages a second", MaxRate)
	case !burst && l.Rate == 0 && (l.Shape == Steady || l.From == 0):
		return wrong("the rate is above 0")
	case !burst && l.Duration <= 0:
		return wrong("--duration is %v: it must be above 0", l.Duration)
	case l.Messages() < 1:
		return wrong("there is no message in this load: it needs a higher rate, a longer duration or a larger burst")
	case burst && l.Lead <= 0:
		return wrong("--in is %v: it must be above 0", l.Lead)
	case !burst && l.WarmUp >= l.Duration:
		return wrong("--warm-up is %v: it must be shorter than --duration, which is %v", l.WarmUp, l.Duration)
	case l.WarmUp < 0 || burst && l.WarmUp > 0:
		return wrong("--warm-up is %v: it must be 0 or more, and a burst has none", l.WarmUp)
	case l.Size.Low < MinSize || l.Size.High > MaxSize:
		return wrong("--size must be from %d, which is what a value says about itself, to %d bytes", MinSize, MaxSize)
	case l.Keys < 0 || l.Keys > MaxKeys:
		return wrong("--keys is %d: it must be from 0 to %d", l.Keys, MaxKeys)
	case l.Skew != 0 && (!(l.Skew > 1) || l.Skew > 100 || l.Keys == 0):
		return wrong("--key-skew is %v: it must be above 1 and needs --keys", l.Skew)
	case !(l.Twice >= 0 && l.Twice <= 1):
		return wrong("--twice is a share from 0%% to 100%%")
	case l.Advance < 0:
		return wrong("--advance is %v: it must be 0 or more", l.Advance)
	case l.Routes < 1:
		return wrong("a load needs a route")
	}
	return nil
}
