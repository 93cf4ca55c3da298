package api

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"chronos/node"
	"chronos/node/listener"
	"chronos/node/store/outlook"
)

const (
	// countInterval is the time between two counts of what waits on the lanes of one token, while it brings messages.
	countInterval = 2 * time.Second

	// fewCallers is how many callers are known before those are forgotten of whom nothing need be. There are as many as
	// tokens, and those of which the file has been rid since.
	fewCallers = 10_000
)

// rates lets each caller make so many requests a second, and as many at once as it may make in one.
type rates struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	most     int // how many there may be before the next sweep
}

// wait returns how long a caller has to wait before it may make a request; 0 if it may now.
func (r *rates) wait(caller string, limit int, now time.Time) time.Duration {
	if limit <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.limiters[caller]
	if l == nil || l.Burst() != limit {
		r.sweep(now)
		l = rate.NewLimiter(rate.Limit(limit), limit)
		r.limiters[caller] = l
	}
	reservation := l.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now) // it is refused, and costs the caller nothing
	}
	return wait
}

// sweep forgets callers that have not asked for so long that they may ask as much as a new one. To forget others would
// give them all that they have used up. The caller holds mu.
func (r *rates) sweep(now time.Time) {
	if r.limiters == nil {
		r.limiters, r.most = map[string]*rate.Limiter{}, fewCallers
	}
	if len(r.limiters) < r.most {
		return
	}
	maps.DeleteFunc(r.limiters, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) })
	r.most = max(fewCallers, 2*len(r.limiters))
}

// retryAfter sets the header that tells a client when to come again.
func retryAfter(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.Itoa(seconds(wait)))
}

// seconds are those of a wait, rounded up.
func seconds(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }

// found knows the lanes on which messages wait and that nobody has named, as they were lately. There may be
// node.MostFound of them, and they are shared out among owners: the tokens that may write, and the routes that have
// targets with a *. Half of the lanes are shared out equally, and each owner always gets that many. The other half is
// for whichever owner asks first. So no owner takes them all from another.
type found struct {
	node   *node.Config
	store  func(context.Context) ([]node.Part, error)
	tokens func() []listener.Token[Scopes] // nil, or none of them, for one caller that may do everything

	mu    sync.Mutex
	lanes map[string]string // the owner of each; "" for one that several may have brought
	was   map[string]string // lanes before the last look, which may have begun before the owner of one was known
	at    time.Time         // of the last look, or try; zero for never
}

// owner is a token or a route.
type owner struct {
	name string
	owns func(lane string) bool // whether it may bring messages for a lane that nobody has named
}

// owners returns all of them.
func (f *found) owners() []owner {
	var all []owner
	if f.tokens != nil {
		for _, t := range f.tokens() {
			if t.Rights.writes() {
				all = append(all, owner{tokenOwner(t.Name), t.Rights.MayWrite})
			}
		}
	}
	if len(all) == 0 {
		all = append(all, owner{tokenOwner(""), func(string) bool { return true }})
	}
	for i := range f.node.Routes {
		r := &f.node.Routes[i]
		if slices.ContainsFunc(r.Targets, func(target string) bool { return strings.HasSuffix(target, "*") }) {
			all = append(all, owner{"route:" + r.Input, r.Finds})
		}
	}
	return all
}

// tokenOwner returns the name of a token as an owner: not "", which is nobody.
func tokenOwner(token string) string { return "token:" + token }

// full reports whether a message may not be brought to a lane because too many others that nobody has named have some
// already. A store that does not answer lets it through, as with quotas.
func (f *found) full(ctx context.Context, caller, lane string, now time.Time) bool {
	if !f.node.Finds(lane) || slices.Contains(f.node.Lanes(), lane) {
		return false
	}
	f.mu.Lock()
	due := now.Sub(f.at) >= countInterval
	if due {
		f.at = now
	}
	f.mu.Unlock()
	if due {
		f.look(ctx)
	}
	owners := f.owners()
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.lanes[lane]
	if known || f.lanes == nil {
		return false
	}
	if !roomFor(tokenOwner(caller), owners, f.lanes) {
		return true
	}
	f.lanes[lane] = tokenOwner(caller) // until a look that does not find it in the store
	return false
}

// roomFor reports whether an owner may have one lane more, beside those that there are with their owners.
func roomFor(name string, owners []owner, lanes map[string]string) bool {
	own := max(1, node.MostFound/2/len(owners))
	common := node.MostFound - own*len(owners)
	had := map[string]int{}
	for _, of := range lanes {
		had[of]++
	}
	if had[name] < own {
		return true
	}
	for of, n := range had {
		if !slices.ContainsFunc(owners, func(o owner) bool { return o.name == of }) {
			common -= n // nobody's, or of a token that there is no more
			continue
		}
		common -= max(0, n-own)
	}
	return common > 0
}

// look reads which lanes there are. A lane is its owner's for as long as something waits there. Who has brought it is
// known where this node has seen that, and where one owner alone may have.
func (f *found) look(ctx context.Context) {
	stored, err := f.store(ctx)
	if err != nil {
		return
	}
	lanes, named, owners := map[string]string{}, f.node.Lanes(), f.owners()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lane := range node.LanesOf(stored) {
		if slices.Contains(named, lane) || !f.node.Finds(lane) {
			continue
		}
		if lanes[lane] = cmp.Or(f.lanes[lane], f.was[lane]); lanes[lane] == "" {
			lanes[lane] = onlyOwner(owners, lane)
		}
	}
	f.lanes, f.was = lanes, f.lanes
}

// onlyOwner returns the only one of owners that may have brought messages for a lane; "" where several may have.
func onlyOwner(owners []owner, lane string) string {
	name := ""
	for _, o := range owners {
		switch {
		case !o.owns(lane):
		case name != "":
			return ""
		default:
			name = o.name
		}
	}
	return name
}

// quotas count what waits on the lanes of each token. A count is taken at most every other second, and what this node
// has brought since is added to it. So the limit is not exact: other nodes bring messages at the same time, and above
// outlook.Limit a lane's count is an estimate of the store. It is there to stop whoever fills the store by mistake, and
// does that within seconds.
type quotas struct {
	source outlook.Source
	lanes  func(context.Context) ([]string, error)

	mu     sync.Mutex
	counts map[string]*count
	most   int // how many there may be before the next sweep
}

// count is what waits on the lanes of one token.
type count struct {
	waiting  int
	at       time.Time // zero for never
	counting bool
}

// full reports whether as many messages wait on the lanes that a token may write to as are allowed. A store that does
// not answer in time lets everything through: what it cannot count it will hardly take in.
func (q *quotas) full(ctx context.Context, caller string, scopes *Scopes, limit int, now time.Time) (bool, int) {
	if limit <= 0 || q.source == nil {
		return false, 0
	}
	q.mu.Lock()
	c := q.counts[caller]
	if c == nil {
		q.sweep(now)
		c = &count{}
		q.counts[caller] = c
	}
	if due := now.Sub(c.at) >= countInterval && !c.counting; !due {
		defer q.mu.Unlock()
		return c.waiting >= limit, c.waiting
	}
	c.counting = true
	q.mu.Unlock()

	waiting, known := q.look(ctx, scopes, now)

	q.mu.Lock()
	defer q.mu.Unlock()
	c.counting, c.at = false, now
	if known {
		c.waiting = waiting
	}
	return c.waiting >= limit, c.waiting
}

// sweep forgets the counts that would be taken anew anyway. The caller holds mu.
func (q *quotas) sweep(now time.Time) {
	if q.counts == nil {
		q.counts, q.most = map[string]*count{}, fewCallers
	}
	if len(q.counts) < q.most {
		return
	}
	maps.DeleteFunc(q.counts, func(_ string, c *count) bool { return !c.counting && now.Sub(c.at) >= countInterval })
	q.most = max(fewCallers, 2*len(q.counts))
}

// look counts.
func (q *quotas) look(ctx context.Context, scopes *Scopes, now time.Time) (waiting int, known bool) {
	lanes, err := q.lanes(ctx)
	if err != nil {
		return 0, false
	}
	lanes = slices.DeleteFunc(lanes, func(lane string) bool { return !scopes.MayWrite(lane) })
	seen, err := q.source.Outlook(ctx, outlook.Request{Now: now, Lanes: lanes})
	if err != nil || seen.Incomplete {
		return 0, false
	}
	for i := range seen.Lanes {
		waiting += seen.Lanes[i].Waiting.N + seen.Lanes[i].Claimed.N
	}
	return waiting, true
}

// brought notes that a token has brought a message.
func (q *quotas) brought(caller string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.counts[caller]; c != nil {
		c.waiting++
	}
}
