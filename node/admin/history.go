package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// A history has a moment for each interval of the last 15 minutes: 180 of them, some 10 KiB.
const (
	historyInterval = 5 * time.Second
	historyLength   = 15 * time.Minute
	historyMoments  = int(historyLength / historyInterval)
)

// Bound is how many messages were at most so late. It counts those of lower bounds, too.
type Bound struct {
	Seconds float64 // +Inf for the last one
	Count   uint64
}

// Counted is what a node has counted since its start.
type Counted struct {
	Fired    uint64
	Lateness []Bound // by rising bounds
}

// Moment is what a node has done in one interval.
type Moment struct {
	At       time.Time `json:"at" doc:"The end of the interval."`
	Fired    uint64    `json:"fired" doc:"How many messages this node has fired in it."`
	Lateness *float64  `json:"lateness,omitempty" doc:"Seconds that 99 in 100 of these kept to; missing if none."`
}

// Past is the last 15 minutes of a node.
type Past struct {
	At      time.Time `json:"at" doc:"Now."`
	Seconds float64   `json:"seconds" doc:"The length of an interval."`
	Moments []Moment  `json:"moments" doc:"The earliest first. Of a node that has just started there are few."`
}

// History remembers what the node has fired in the last 15 minutes, and how late, so that whoever opens its page in an
// incident sees how that began. Its memory is bounded. It is of this node, and from its start on.
type History struct {
	count func() Counted

	mu      sync.Mutex
	last    Counted
	moments []Moment
}

// NewHistory returns an empty history. count returns what the node has counted since its start.
func NewHistory(count func() Counted) *History { return &History{count: count} }

// Run takes note of a moment after each interval, until ctx is done.
func (h *History) Run(ctx context.Context) {
	ticker := time.NewTicker(historyInterval)
	defer ticker.Stop()
	h.mu.Lock()
	h.last = h.count()
	h.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-ticker.C:
			h.note(at)
		}
	}
}

func (h *History) note(at time.Time) {
	now := h.count()
	h.mu.Lock()
	defer h.mu.Unlock()
	moment := Moment{At: at.UTC().Truncate(time.Millisecond), Lateness: quantile99(h.last.Lateness, now.Lateness)}
	if now.Fired > h.last.Fired {
		moment.Fired = now.Fired - h.last.Fired
	}
	h.last = now
	h.moments = append(h.moments, moment)
	if over := len(h.moments) - historyMoments; over > 0 {
		h.moments = slices.Delete(h.moments, 0, over)
	}
}

// Since returns the moments after an instant.
func (h *History) Since(after time.Time) []Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := slices.IndexFunc(h.moments, func(m Moment) bool { return m.At.After(after) })
	if from < 0 {
		return []Moment{}
	}
	return slices.Clone(h.moments[from:])
}

// quantile99 returns the bound that 99 in 100 of what was counted between two looks kept to, or the highest that is a
// number; nil where nothing was counted.
func quantile99(before, now []Bound) *float64 {
	fresh := func(i int) uint64 {
		if i < len(before) {
			return now[i].Count - before[i].Count
		}
		return now[i].Count
	}
	if len(now) < 2 || fresh(len(now)-1) == 0 {
		return nil
	}
	all := fresh(len(now) - 1)
	for i := range now[:len(now)-1] {
		if 100*fresh(i) >= 99*all {
			return &now[i].Seconds
		}
	}
	return &now[len(now)-2].Seconds
}

type pastInput struct {
	After time.Time `query:"after" doc:"Only moments after this instant."`
}

func (a *API) history(api huma.API) {
	read(a, api, "/v1/history", "history", "What this node has fired in the last 15 minutes, and how late",
		func(_ context.Context, in *pastInput) (Past, error) {
			if a.History == nil {
				return Past{}, huma.Error404NotFound("no history is kept here: only a node that runs has one")
			}
			return Past{a.now().UTC(), historyInterval.Seconds(), a.History.Since(in.After)}, nil
		})
}
