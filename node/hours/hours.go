// Package hours says when lanes are open, to people: what waits for a lane that is closed is not overdue, and what
// comes out when it opens is not late. The engine asks the windows by itself.
package hours

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chronos/node"
	"chronos/node/store/outlook"
)

// Hours knows when the lanes of a node are open. It is safe for concurrent use.
type Hours struct {
	config *node.Config

	mu    sync.Mutex
	known map[string]known // by lane
}

// State is how a lane with a window is at an instant.
type State struct {
	// Window is the window in words, as the node understands it; empty if it has none.
	Window string

	Open bool

	// Changes is when that changes next; zero for never.
	Changes time.Time

	// Opened is when the lane opened last: the beginning of this opening or, if it is closed, of the one before. Zero
	// if it has been open for as long as anybody looks back, which is ten years.
	Opened time.Time
}

// Excuses reports whether nothing on the lane is overdue at the instant of the state: what waits for a closed lane is
// not, nor is what comes out at this moment, because the lane has just opened.
func (s *State) Excuses(at time.Time) bool { return !s.Open || at.Sub(s.Opened) <= outlook.Grace }

// known is a state, and from when on it holds.
type known struct {
	State

	has   bool // the lane has a window
	asked time.Time
}

// maxKnown bounds of how many lanes the state is kept: an application can make up lanes.
const maxKnown = 1000

// New returns what knows the windows of a configuration, which must not change any more.
func New(config *node.Config) *Hours { return &Hours{config: config, known: map[string]known{}} }

// At returns how a lane is at an instant, and false if it has no window, so that it is always open.
func (h *Hours) At(lane string, at time.Time) (State, bool) {
	at = at.Round(0) // by the wall clock, as windows are: the monotonic one does not tell that it was set back
	h.mu.Lock()
	defer h.mu.Unlock()
	k, there := h.known[lane]
	if !there || k.has && (at.Before(k.asked) || !k.Changes.IsZero() && !at.Before(k.Changes)) {
		if len(h.known) >= maxKnown {
			clear(h.known)
		}
		k = look(h.config.WindowOf(lane), at)
		h.known[lane] = k
	}
	return k.State, k.has
}

// look asks a window, which may be nil.
func look(w node.Window, at time.Time) known {
	if w == nil {
		return known{}
	}
	k := known{State: State{Window: "a window without a name", Open: w.Open(at)}, has: true, asked: at}
	if words, is := w.(fmt.Stringer); is {
		k.Window = words.String()
	}
	if changes, some := w.Next(at); some {
		k.Changes = changes
	}
	last, some := before(w, at)
	if some && !k.Open { // it has closed then: it opened before
		last, some = before(w, last.Add(-1))
	}
	if some {
		k.Opened = last
	}
	return k
}

// before returns when a window changed last, at an instant or before it. A window tells only what comes: so it is asked
// from further and further back.
func before(w node.Window, at time.Time) (time.Time, bool) {
	const farthest = 10 * 365 * 24 * time.Hour
	for back := time.Hour; back < 2*farthest; back *= 4 {
		change, some := w.Next(at.Add(-back))
		if !some || change.After(at) {
			continue
		}
		for {
			next, more := w.Next(change)
			if !more || next.After(at) {
				return change, true
			}
			change = next
		}
	}
	return time.Time{}, false
}

// Opened returns when a lane opened last before an instant; the zero time if it has no window.
func (h *Hours) Opened(lane string, at time.Time) time.Time {
	state, _ := h.At(lane, at)
	return state.Opened
}

// Excuses reports whether nothing on a lane is overdue at an instant, because of its window.
func (h *Hours) Excuses(lane string, at time.Time) bool {
	state, has := h.At(lane, at)
	return has && state.Excuses(at)
}

// Closed says until when a lane is closed at an instant, in words; empty if it is open.
func (h *Hours) Closed(lane string, at time.Time) string {
	state, has := h.At(lane, at)
	switch {
	case !has || state.Open:
		return ""
	case state.Changes.IsZero():
		return "closed forever"
	}
	return "closed until " + state.Changes.UTC().Format("Mon 2006-01-02 15:04 UTC")
}

// Outlook returns a source that tells what another one does, except that nothing is overdue on a lane that is closed,
// and nothing for longer than its lane is open.
func (h *Hours) Outlook(source outlook.Source) outlook.Source {
	if len(h.config.Windows) == 0 {
		return source
	}
	return patient{h, source}
}

// patient is a source that minds windows.
type patient struct {
	hours  *Hours
	source outlook.Source
}

// Outlook implements outlook.Source.
func (p patient) Outlook(ctx context.Context, request outlook.Request) (outlook.Outlook, error) {
	seen, err := p.source.Outlook(ctx, request)
	for i := range seen.Lanes {
		l := &seen.Lanes[i]
		state, has := p.hours.At(l.Name, request.Now)
		switch {
		case !has:
		case state.Excuses(request.Now) && (!state.Open || !l.Overdue.Unknown):
			l.Overdue, l.Deferred, l.Oldest, l.Origins = outlook.Count{}, outlook.Count{}, time.Time{}, nil
		case !l.Oldest.IsZero() && l.Oldest.Before(state.Opened):
			l.Oldest = state.Opened
		}
	}
	return seen, err //nolint:wrapcheck // it is the source's
}
