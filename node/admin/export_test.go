package admin

import "time"

// SetNow gives t another clock.
func (t *Troubles) SetNow(now func() time.Time) { t.now = now }
