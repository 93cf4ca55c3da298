package desk

import (
	"context"
	"slices"
	"time"

	"chronos/node/calendar"
	"chronos/node/queue"
)

// containing returns the queues that contain some, by the paths at which they lie.
func (d *Desk) containing(ctx context.Context, queues []queue.Queue) (map[string][]*queue.Queue, error) {
	filter := queue.Filter{Limit: page}
	for i := range queues {
		filter.Paths = append(filter.Paths, queues[i].Prefixes()...)
	}
	slices.Sort(filter.Paths)
	if filter.Paths = slices.Compact(filter.Paths); len(filter.Paths) == 0 {
		return nil, nil
	}
	found := map[string][]*queue.Queue{}
	for {
		some, err := d.Store.Queues(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range some {
			for _, path := range some[i].Paths {
				found[path] = append(found[path], &some[i])
			}
		}
		if len(some) < page {
			return found, nil
		}
		filter.AfterName = some[len(some)-1].Name
	}
}

// above returns a queue and those that contain it.
func above(q *queue.Queue, found map[string][]*queue.Queue) []*queue.Queue {
	all := []*queue.Queue{q}
	for _, prefix := range q.Prefixes() {
		for _, other := range found[prefix] {
			if !slices.ContainsFunc(all, func(known *queue.Queue) bool { return known.ID == other.ID }) {
				all = append(all, other)
			}
		}
	}
	return all
}

// fewWindows is how many windows are kept that were read: reading one costs more than asking it.
const fewWindows = 10_000

// window reads a window that the store has; one that cannot be read is closed, as it is to the store.
func (d *Desk) window(text string) *calendar.Window {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.windows[text]; w != nil {
		return w
	}
	w, err := calendar.ParseWindow(text, time.Time{})
	if err != nil {
		w, _ = calendar.ParseWindow("never", time.Time{}) // that is one
	}
	if d.windows == nil || len(d.windows) >= fewWindows {
		d.windows = map[string]*calendar.Window{}
	}
	d.windows[text] = w
	return w
}

// Hours is when a queue is open.
type Hours struct {
	Open    bool
	Changes time.Time // when that changes next, if nobody changes a window; zero for never, or not for long
	Closed  []string  // the names of the queues whose windows keep it closed: its own, or some that contain it

	// Openings are when it is open from From on and until Until, in order, the first hundred of them.
	From, Until time.Time
	Openings    []calendar.Opening
}

// maxOpenings is how many openings of a queue are shown at once.
const maxOpenings = 100

// maxSteps is how many changes of windows are looked at to find the next change of a queue.
const maxSteps = 1000

// Hours returns when each of some queues is open, by its own window and those of the queues that contain it.
func (d *Desk) Hours(ctx context.Context, queues ...queue.Queue) ([]Hours, error) {
	return d.hours(ctx, 0, queues)
}

// hours is Hours, with what is open for so long from now on.
func (d *Desk) hours(ctx context.Context, ahead time.Duration, queues []queue.Queue) ([]Hours, error) {
	found, err := d.containing(ctx, queues)
	if err != nil {
		return nil, err
	}
	now, all := d.now(), make([]Hours, len(queues))
	for i := range queues {
		var windows []*calendar.Window
		all[i].Open = true
		for _, one := range above(&queues[i], found) {
			w := d.window(one.Window)
			if windows = append(windows, w); !w.Open(now) {
				all[i].Open, all[i].Closed = false, append(all[i].Closed, one.Name)
			}
		}
		all[i].Changes = change(windows, now, all[i].Open)
		all[i].From = now.UTC().Truncate(time.Second)
		all[i].Until = all[i].From.Add(ahead)
		if ahead > 0 {
			all[i].Openings = openings(windows, all[i].From, all[i].Until)
		}
	}
	return all, nil
}

// change returns the first instant after one at which all of some windows are open, if they are not, or the reverse.
func change(windows []*calendar.Window, at time.Time, open bool) time.Time {
	for range maxSteps {
		var next time.Time
		for _, w := range windows {
			if c, changes := w.Next(at); changes && (next.IsZero() || c.Before(next)) {
				next = c
			}
		}
		if next.IsZero() || allOpen(windows, next) != open {
			return next
		}
		at = next
	}
	return time.Time{}
}

func allOpen(windows []*calendar.Window, at time.Time) bool {
	return !slices.ContainsFunc(windows, func(w *calendar.Window) bool { return !w.Open(at) })
}

// openings returns when all of some windows are open between two instants.
func openings(windows []*calendar.Window, from, until time.Time) []calendar.Opening {
	var found []calendar.Opening
	at, open := from, allOpen(windows, from)
	for len(found) < maxOpenings {
		next := change(windows, at, open)
		last := next.IsZero() || next.After(until)
		if last {
			next = until
		}
		if open {
			found = append(found, calendar.Opening{Start: at.UTC(), End: next.UTC()})
		}
		if last {
			break
		}
		at, open = next, !open
	}
	return found
}
