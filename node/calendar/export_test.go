package calendar

import "time"

// Looked returns how many stretches of the clock Next looks at for an answer.
func (w *Window) Looked(after time.Time) int {
	_, _, looked := w.next(after, lastSecond())
	return looked
}
