package api

import (
	"context"
	"strconv"
	"time"

	"chronos/node/store/outlook"
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

// Quotas are quotas, for tests that say what time it is.
type Quotas struct{ quotas quotas }

// NewQuotas returns the quotas of a store.
func NewQuotas(source outlook.Source, lanes func(context.Context) ([]string, error)) *Quotas {
	return &Quotas{quotas{source: source, lanes: lanes}}
}

// Full reports whether as many messages wait as a token may have, and how many do.
func (q *Quotas) Full(ctx context.Context, scopes *Scopes, limit int, now time.Time) (bool, int) {
	return q.quotas.full(ctx, "token", scopes, limit, now)
}

// Full reports whether a caller may bring nothing to one more lane, at an instant.
func (a *API) Full(ctx context.Context, caller, lane string, now time.Time) bool {
	return a.found.full(ctx, caller, lane, now)
}
