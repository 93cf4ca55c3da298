package admin

import "time"

// SetNow gives t another clock.
func (t *Troubles) SetNow(now func() time.Time) { t.now = now }

// Known returns of how many lanes t keeps a trouble, be it over or not.
func (t *Troubles) Known() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lanes)
}

// Remember has h hold a moment.
func Remember(h *History, at time.Time, fired uint64, lateness float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moments = append(h.moments, Moment{at.UTC(), fired, &lateness})
}
