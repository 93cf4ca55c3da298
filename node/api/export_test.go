package api

import (
	"strconv"
	"time"
)

// SpentAfter reports whether a caller that has used its rate up is still refused after that many others have come, and
// how many callers are known a minute and one request later.
func SpentAfter(others int, now time.Time) (refused bool, known int) {
	var r rates
	r.wait("a", 1, now)
	for i := range others {
		r.wait(strconv.Itoa(i), 1, now)
	}
	refused = r.wait("a", 1, now) > 0
	for i := range others {
		r.wait("b"+strconv.Itoa(i), 1, now.Add(time.Minute))
	}
	return refused, len(r.limiters)
}
