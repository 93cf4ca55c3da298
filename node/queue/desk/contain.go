package desk

import (
	"context"
	"slices"
	"strings"
	"time"

	"chronos/node/calendar"
	"chronos/node/queue"
)

// containing returns the queues that contain one, in the order of their names: those at true prefixes of its paths. They
// are at most a second old.
func (d *Desk) containing(ctx context.Context, q *queue.Queue) ([]*queue.Queue, error) {
	var prefixes []string
	for _, path := range q.Paths {
		for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path, '/') {
			path = path[:at]
			prefixes = append(prefixes, path)
		}
	}
	if len(prefixes) == 0 {
		return nil, nil
	}
	paths, err := d.byPath(ctx)
	if err != nil {
		return nil, err
	}
	var found []*queue.Queue
	for _, prefix := range prefixes {
		for _, other := range paths[prefix] {
			if other.ID != q.ID && !slices.Contains(found, other) {
				found = append(found, other)
			}
		}
	}
	slices.SortFunc(found, func(a, b *queue.Queue) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// byPath returns all queues by their paths.
func (d *Desk) byPath(ctx context.Context) (map[string][]*queue.Queue, error) {
	d.mu.Lock()
	known, age := d.all, time.Since(d.looked)
	d.mu.Unlock()
	if known != nil && age < fresh {
		return known, nil
	}
	looked, paths, filter := time.Now(), map[string][]*queue.Queue{}, queue.Filter{Limit: page}
	for {
		queues, err := d.Store.Queues(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range queues {
			for _, path := range queues[i].Paths {
				paths[path] = append(paths[path], &queues[i])
			}
		}
		if len(queues) < page {
			break
		}
		filter.AfterName = queues[len(queues)-1].Name
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all, d.looked = paths, looked
	return paths, nil
}

// forget has the next look at containing queues read them anew: somebody has just changed one here.
func (d *Desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = nil
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
}

// maxSteps is how many changes of windows are looked at to find the next change of a queue.
const maxSteps = 1000

// Hours returns when a queue is open, by its own window and those of the queues that contain it.
func (d *Desk) Hours(ctx context.Context, q *queue.Queue) (Hours, error) {
	above, err := d.containing(ctx, q)
	if err != nil {
		return Hours{}, err
	}
	now, all := d.now(), append([]*queue.Queue{q}, above...)
	hours := Hours{Open: true}
	windows := make([]*calendar.Window, len(all))
	for i, one := range all {
		if windows[i] = d.window(one.Window); !windows[i].Open(now) {
			hours.Open, hours.Closed = false, append(hours.Closed, one.Name)
		}
	}
	hours.Changes = change(windows, now, hours.Open)
	return hours, nil
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

// Openings returns when a queue is open between two instants, at most limit times.
func (d *Desk) Openings(ctx context.Context, q *queue.Queue, from, until time.Time, limit int) (
	[]calendar.Opening, error,
) {
	above, err := d.containing(ctx, q)
	if err != nil {
		return nil, err
	}
	windows := []*calendar.Window{d.window(q.Window)}
	for _, one := range above {
		windows = append(windows, d.window(one.Window))
	}
	var found []calendar.Opening
	at, open := from, allOpen(windows, from)
	for len(found) < limit {
		next := change(windows, at, open)
		end := next.IsZero() || next.After(until)
		if open && end {
			found = append(found, calendar.Opening{Start: at, End: until})
		} else if open {
			found = append(found, calendar.Opening{Start: at, End: next})
		}
		if end {
			return found, nil
		}
		at, open = next, !open
	}
	return found, nil
}
