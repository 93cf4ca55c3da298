package check

import (
	"fmt"
	"strings"
	"time"
)

// Window says when a lane is open: for Open, from Phase on and then once in each Period, by the wall clock of whoever
// asks. The instants are durations since the beginning of the history.
type Window struct {
	Topic               string
	Period, Open, Phase time.Duration
}

// String returns the form in which a history has it.
func (w *Window) String() string {
	return fmt.Sprintf("%s/%v/%v/%v", w.Topic, w.Period, w.Open, w.Phase)
}

func windowsText(windows []Window) string {
	texts := make([]string, len(windows))
	for i := range windows {
		texts[i] = windows[i].String()
	}
	return strings.Join(texts, ",")
}

func parseWindows(s string) ([]Window, error) {
	var windows []Window
	for text := range strings.SplitSeq(s, ",") {
		parts := strings.Split(text, "/")
		if len(parts) != 4 {
			return nil, fmt.Errorf("%q is no window: it must be TOPIC/PERIOD/OPEN/PHASE", text)
		}
		w := Window{Topic: parts[0]}
		for i, target := range []*time.Duration{&w.Period, &w.Open, &w.Phase} {
			var err error
			if *target, err = time.ParseDuration(parts[i+1]); err != nil {
				return nil, fmt.Errorf("%q is no time: %w", parts[i+1], err)
			}
		}
		if w.Period <= 0 || w.Open <= 0 || w.Open > w.Period {
			return nil, fmt.Errorf("%q is no window: it must be open for a part of its period", text)
		}
		windows = append(windows, w)
	}
	return windows, nil
}

// window returns that of a lane; nil where it is always open.
func (s *state) window(topic string) *Window { return windowOf(s.config.Windows, topic) }

// windowBy returns that which a process goes by.
func (s *state) windowBy(p *process, topic string) *Window {
	if p.windows != nil {
		return windowOf(p.windows, topic)
	}
	return s.window(topic)
}

func windowOf(windows []Window, topic string) *Window {
	for i := range windows {
		if windows[i].Topic == topic {
			return &windows[i]
		}
	}
	return nil
}

// into returns how long ago it opened last.
func (w *Window) into(at time.Duration) time.Duration {
	into := (at - w.Phase) % w.Period
	if into < 0 {
		into += w.Period
	}
	return into
}

// from returns the first instant, not before another one, from which on it is open for so long, where it counts as
// open that much sooner than it is; false if it never is for so long. The nil window is always open.
func (w *Window) from(at, need, sooner time.Duration) (time.Duration, bool) {
	switch {
	case w == nil:
		return at, true
	case w.Open+sooner < need:
		return 0, false
	case w.Open+sooner >= w.Period:
		return at, true
	}
	into := w.into(at + sooner)
	if into < w.Open+sooner && into+need <= w.Open+sooner {
		return at, true
	}
	return at + w.Period - into, true
}

// closes returns the first instant, not before another one, at which it is closed.
func (w *Window) closes(at time.Duration) time.Duration {
	if into := w.into(at); into < w.Open {
		return at + w.Open - into
	}
	return at
}

// night bounds the time in which all that has waited for an opening comes out, and calls come in a row for each of
// those that may be made at once.
func (c *Config) night(callback bool) time.Duration {
	night := c.Backlog()
	if callback {
		night += time.Duration(c.Messages/callsAtOnce+1) * (c.BrokerLatency + 3*c.StoreLatency)
	}
	return night
}

// callsAtOnce is how many callbacks of a lane a node makes at the same time, at least.
const callsAtOnce = 32

// shut bounds what the windows add to the time until everything has come out: each thing that a message waits for may
// come just when its lane closes, and an opening may be long enough for one claim only.
func (c *Config) shut() time.Duration {
	longest := time.Duration(0)
	for i := range c.Windows {
		if w := &c.Windows[i]; w.Open < w.Period {
			longest = max(longest, w.Period)
		}
	}
	return longest * time.Duration(8+c.Messages/c.Share()+c.Messages/callsAtOnce+c.beats())
}

// recovery is the bound of L1 for what is on a lane: nothing waits for an opening where there is no window, nor for its
// turn where there is no pace.
func (s *state) recovery(topic string) time.Duration {
	bound := s.config.Recovery()
	if s.window(topic) == nil {
		bound -= s.config.shut()
	}
	if s.config.pace(topic) == 0 {
		bound -= s.config.paced()
	}
	return bound
}

// s29 is the invariant S29, closed. The clock that a node has looked at may have been set since, as in S8.
func s29(s *state, e *Event) finding {
	sub, w := s.submissions[e.Message], s.window(e.Topic)
	if e.Kind == Fire {
		wrong := s.config.ClockError
		if w == nil || s.rewindowed {
			return holds()
		}
		if open, _ := w.from(e.At-s.config.PublishTimeout-wrong, 0, 0); open > e.At+wrong && !s.recorded[Publish] {
			return brokenBy(sub, "it fires on %s, which is closed for %v more", e.Topic, open-e.At-wrong)
		}
		return holds()
	}
	p := s.process(e.Node)
	if w = s.windowBy(p, e.Topic); w == nil {
		return holds()
	}
	set := p.jumped >= 0 && e.At-p.jumped <= s.config.StoreTimeout
	if into := w.into(e.Wall); into >= w.Open && !set {
		return brokenBy(sub, "it is published on %s, which has been closed for %v by the clock of %s", e.Topic,
			into-w.Open, e.Node)
	}
	return holds()
}

// l16 is the invariant L16, opens.
func l16(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil || s.window(sub.key.topic) == nil || s.hangs > 0 {
		return holds()
	}
	c := &s.config
	bound := c.Punctual() + c.night(isCallback(sub.key.topic))
	if s.rejected > 0 {
		bound += c.Look()
	}
	return s.overdue(e, bound, true)
}

// waited returns how much sooner than others a message comes out that was waiting when its lane opened, which had been
// closed for so long that nodes have noticed: it was claimed in time, and nobody had to look.
func (s *state) waited(sub *submission, opens time.Duration) time.Duration {
	c := &s.config
	r, w := s.stored(sub), s.window(sub.key.topic)
	if r == nil || s.rejected > 0 || w.into(opens) != 0 ||
		w.Period-w.Open <= c.Lookahead+4*c.StoreLatency+2*c.ClockError ||
		max(r.waiting, r.due) > opens-c.Lookahead-3*c.StoreLatency-2*c.ClockError {
		return 0
	}
	return c.Look() * 11 / 10
}

// l17 is the invariant L17, idle by night.
func l17(s *state, e *Event) finding {
	if len(s.config.Windows) == 0 || s.rewindowed || s.faults+s.hangs+s.pauses+s.lineages > 0 || s.healed >= 0 ||
		s.setBack >= 0 {
		return holds()
	}
	if e.Kind == End {
		for _, r := range s.left() {
			if f := s.sleeps(r, e.At); r.ready() && f.detail != "" {
				return f
			}
		}
		return holds()
	}
	if e.Kind == Insert || e.Kind == Claim {
		return s.roused(e)
	}
	i := s.incarnations[e.Incarnation]
	if i == nil {
		return holds()
	}
	r := s.rows[i.key]
	if e.Kind == Reset {
		r = s.rowOf(e)
	}
	if r == nil || r.incarnation != i || !r.ready() || i.begun >= r.since && i.begun > 0 {
		return holds()
	}
	return s.sleeps(r, e.At)
}

// roused finds a claim on a lane that was not even about to open when it was asked for.
func (s *state) roused(e *Event) finding {
	w, c := s.window(e.Topic), &s.config
	if w == nil || e.Owner == (UUID{}) {
		return holds()
	}
	asked := e.At - 2*c.StoreLatency - c.ClockError
	if may, _ := w.from(asked, 0, c.Lookahead+c.ClockError); may > e.At {
		return brokenBy(s.submissions[e.Message], "%s is claimed on %s, which is closed, and opens in %v", e.ID,
			e.Topic, may-e.At+c.Lookahead+c.ClockError)
	}
	return holds()
}

// sleeps finds a claim that was held for too long after its lane had closed, up to now. Shortly before the lane opens
// again it may be held once more.
func (s *state) sleeps(r *row, now time.Duration) finding {
	w, c := s.window(r.key.topic), &s.config
	if w == nil {
		return holds()
	}
	closed := w.closes(r.since)
	opens, _ := w.from(closed, 0, c.Lookahead+c.ClockError)
	bound := c.Look()*11/10 + 4*c.StoreLatency + 2*c.ClockError + c.Backlog()
	if held := min(now, opens) - closed; held > bound {
		return brokenBy(r.submission, "its claim is held for %v after %s has closed", held, r.key.topic)
	}
	return holds()
}

// shuts reports whether the owner of a claim may have found since it was made that its lane is closed, and not about to
// open. A clock that was set may show anything, until the healing sets it right.
func (s *state) shuts(r *row, e *Event) bool {
	p, c := s.process(e.Node), &s.config
	w := s.windowBy(p, r.key.topic)
	if w == nil {
		return false
	}
	if p.jumped >= 0 && (s.healed < 0 || p.jumped+c.StoreTimeout >= r.since) {
		return true
	}
	return w.shuts(r.since-c.ClockError, e.At+c.ClockError, c.Lookahead)
}

// shuts reports whether there is an instant from one to another at which it is closed, and not about to open.
func (w *Window) shuts(from, to, lookahead time.Duration) bool {
	if w.Period-w.Open <= lookahead {
		return false
	}
	left := w.Open + lookahead - w.into(from+lookahead)
	return left <= 0 || from+left <= to
}
