package node

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// firer is the operation "claim and fire" on one sink: it claims what falls due soon, publishes each message at its
// instant, and deletes what was acknowledged. It is one claimer (this file), which fills the schedule, several
// publishers (publish.go), which empty it, and one settler (settle.go), so that claims, publishes and deletes overlap.
//
// Lanes keep to themselves. Each has a share of every claim and of the schedule, so that a backlog on one does not
// keep another waiting, and a back-off of its own: what its sink says puts off nobody else. A part of a lane on which
// messages are parked is a lane of its own (park.go).
type firer struct {
	*core

	pace       pace
	schedule   *schedule // the sink's own
	sink       Sink
	settling   Settling // in place of sink; nil if the store does not publish
	random     *rand.ChaCha8
	claims     link
	releases   link
	bell       Bell
	whole      ration // of claims that begin with the oldest of some lane
	part       ration // of those that ask only for what fell due lately: they need not wade through anything
	batches    ration // of publishes
	publishers []*publisher
	settler    *settler

	// nextLook is when to look for due messages on all lanes next, monotonic, and storeRetry when to call the
	// store again that has failed. Only the claimer uses them.
	nextLook, storeRetry time.Duration

	// rationed is the one of the two that bounds the claim that is under way, and sharing how many lanes share it.
	rationed *ration
	sharing  int

	// rest is what decides on longer waits between two looks. See rest.go.
	rest rest

	// mu guards what follows, which the publishers use too.
	mu     sync.Mutex
	lanes  []*laneLink
	named  map[Part]*laneLink
	turn   int           // the lane that comes first in the next claim
	drawn  *rand.ChaCha8 // for the lanes
	hungry bool          // the claimer has left something in the store for want of room
}

// laneLink is how the sink has taken to a lane lately, or to a part of one, and whether there is more to claim on it.
type laneLink struct {
	link

	part       string        // the name of the part; empty for the lane itself
	works      bool          // of a part: something has come through since it did not answer
	retry      time.Duration // claim nothing before this monotonic instant
	rest       time.Duration // look no sooner for what may have fallen due
	failing    time.Duration // when a batch failed last
	worked     time.Duration // when something came through last; 0 for never
	backlogged bool          // the last claim did not get all that is due
	backlog    backlog       // how its claims are shared while that is so
	look       look          // what the claim that is under way is for
	shut       bool          // nothing could be claimed on it when it was looked at last, since it was closed
}

const (
	// restFor is how long after its last failure a lane is looked at once a second only by a node on which nothing
	// comes through. Without it a node would do so until it has published something there itself: where another one
	// has published what it has failed with, it would for days, and when that one stops, be late with the next message.
	restFor = time.Minute
)

func newFirer(c *core, schedule *schedule, sink Sink, random *rand.ChaCha8) *firer {
	f := &firer{
		core:     c,
		pace:     schedule.pace,
		schedule: schedule,
		sink:     sink,
		random:   random,
		claims:   c.link(Fire, PortStore, random),
		releases: c.link(Fire, PortStore, random),
		bell:     c.clock.Bell(),
		whole:    ration{limit: c.config.StoreTimeout(), most: c.config.batch()},
		part:     ration{limit: c.config.StoreTimeout(), most: c.config.batch()},
		batches:  ration{limit: schedule.pace.publish, most: c.config.batch()},
	}
	f.drawn, f.named = child(random), map[Part]*laneLink{}
	f.meet()
	f.settler = newSettler(c, f.pace, child(random))
	f.settler.due, f.settler.moved = f.recurred, f.moved
	for range f.pace.publishers {
		f.publishers = append(f.publishers, newPublisher(f, child(random)))
	}
	return f
}

// start starts the claimer, the publishers and the settler.
func (f *firer) start(tasks Tasks) {
	tasks.Go(Claiming, f.run)
	publishing := Fire
	if f.pace.calls {
		publishing = Call
	}
	for _, p := range f.publishers {
		tasks.Go(publishing, p.run)
	}
	tasks.Go(Settle, f.settler.run)
}

// run is the claimer. It runs until ctx is done; then it gives back the claims that wait for their instant.
func (f *firer) run(ctx context.Context) {
	for ctx.Err() == nil {
		f.schedule.settled(f.clock.Mono())
		f.abandon(ctx)
		f.claim(ctx)
		f.bell.Sleep(ctx, f.idle())
	}
	if held := f.schedule.clear(); !f.giveBack(ctx, held) {
		f.observe(LeftBehind{Claims: len(held)})
	}
}

// idle returns how long the claimer has nothing to do: until the next look, or until a lane closes, or opens so soon
// that what waits there is to be claimed.
func (f *firer) idle() time.Duration {
	now := f.clock.Mono()
	return max(min(f.wakes()-now, f.schedule.turns(f.config.Lookahead)), f.storeRetry-now)
}

// publishable reports whether a claim that was requested at a monotonic instant is young enough to be published.
func (f *firer) publishable(since time.Duration) bool { return f.youngAt(f.clock.Mono(), since) }

// youngAt reports whether it is at a monotonic instant.
func (f *firer) youngAt(now, since time.Duration) bool { return now-since <= f.pace.young }

// abandon gives back what has become too old to be published, whatever its deadline: after the wall clock was set
// back, a schedule could be full of claims that are nobody's any more, and nothing else would be claimed until the
// clock has caught up.
func (f *firer) abandon(ctx context.Context) {
	now := f.clock.Mono()
	young := func(since time.Duration) bool { return f.youngAt(now, since) }
	if old := f.schedule.old(young); len(old) > 0 {
		f.observe(Abandoned{Claims: claims(old)})
		f.giveBack(ctx, old)
	}
}

// close gives back what is on the schedule of lanes that have closed. What is being published is finished. The rest has
// never been tried, so that the whole night is there to cancel it, or to move it: who holds it would say too late.
func (f *firer) close(ctx context.Context) {
	if shut := f.schedule.shut(f.config.Lookahead); len(shut) > 0 {
		f.giveBack(ctx, shut)
	}
}

// claim claims bounded batches of what falls due within the lookahead and puts them on the schedule: one batch with a
// share for every lane when it is time to look, and then, as long as there is more and room for it, batches with
// shares for the lanes that have more. So a lane with a million overdue messages has all of the claims while no
// other needs them, and every other lane is looked at once in each poll interval.
func (f *firer) claim(ctx context.Context) {
	for ctx.Err() == nil {
		f.close(ctx)
		started := f.clock.Mono()
		if started < f.storeRetry {
			return
		}
		all := started >= f.wakes()
		if all {
			f.nextLook = started + jittered(f.random, f.config.PollInterval, 10)
		}
		lapsed := f.lapsed()
		request := ClaimRequest{Node: f.id, Hold: f.pace.hold, Until: lapsed.Add(f.config.Lookahead)}
		request.Lanes, request.Bytes = f.shares(started, all)
		request.Ahead = f.asksIdle(all, len(request.Lanes))
		if len(request.Lanes) == 0 {
			f.confirm(ctx)
			return
		}
		asked, behind := f.known()
		if behind {
			return // what the store would give away may be cancelled
		}
		result, err := f.store.Claim(context.WithoutCancel(ctx), request)
		lots, most := lotsOf(result.Messages)
		f.rationed.took(f.clock.Mono()-started, err == nil, most.count*f.sharing, most.size*f.sharing)
		if err != nil {
			f.unclaimed(started, lapsed, request)
			f.rest.quiet = false
			if len(result.Messages) > 0 {
				f.serve(ctx, started, asked, &result)
			}
			// Other claims may have been made. Nobody knows of them, so they are recovered after the hold time.
			f.storeRetry = f.clock.Mono() + f.claims.failed("claim", err)
			return
		}
		f.claims.succeeded()
		f.claimed(started, lapsed, &result, request, lots)
		f.rests(started, all, &result)
		f.serve(ctx, started, asked, &result)
	}
}

// serve puts on the schedule what was claimed by a call that began at a monotonic instant, when asked was known.
func (f *firer) serve(ctx context.Context, started time.Duration, asked asking, result *ClaimResult) {
	f.follow(asked, result.State)
	if len(result.Messages) == 0 {
		return
	}
	f.observe(Claimed{Messages: result.Messages})
	served := f.standBack(ctx, result.Messages)
	// The age of the claim counts from before it was requested: the store stamped it later, so no
	// detector can find it older than this node does, at equal rates of their clocks.
	holdings := make([]*holding, len(served))
	for i := range served {
		holdings[i] = &holding{Ready: served[i], since: started}
	}
	f.hold(f.schedule, result.State.Lineage, holdings)
}

// shares returns what to claim on which lanes: on all that are open and not put off, or only on those with a backlog,
// and a lane that has just opened counts as one. A lane whose part of the schedule is full has no share; a publisher
// rings when there is room again.
//
// A node on which nothing has come through lately looks once a second only at a lane that has failed repeatedly, for a
// minute after the last time. What another node that fails as well gives back would otherwise be claimed by whoever
// looks first, time and again, and of four nodes of which three do not reach the brokers that is seldom the fourth:
//
//	A publishes x, until its time limit
//	A gives x back               B, C and D look within a tenth of a second; B is first
//	B publishes x, until its time limit
//	B gives x back               A, C and D look; ...
//
// A share is one message at least, however large, and all of a claim together no more than the ration allows, which the
// bound on its bytes sees to. On the lanes that it does not come to, the next claim begins. So on a way that is too
// slow for four megabytes, four lanes with a message of a megabyte each come out one after the other.
//
// A part that has not answered has a share of a few messages, each time that it is to be tried.
func (f *firer) shares(now time.Duration, all bool) (shares []Share, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hungry = false
	f.meet()
	reaching := f.reaching()
	turn, shutting, probes, longest := f.turn, 0, 0, f.longest(now)
	for i := range f.lanes {
		at := (turn + i) % len(f.lanes)
		l := f.lanes[at]
		switch shut := !f.schedule.claimable(l.lane, f.config.Lookahead); {
		case shut:
			l.shut = true
			shutting++
			continue
		case l.shut: // whatever has waited for that is claimed at once
			l.shut, l.backlogged = false, true
			f.rest.stirred = true // no look was at what falls due there next
		}
		if now < l.retry || !l.backlogged && (!all || now < l.rest) {
			continue
		}
		free, size := f.schedule.room(l.where())
		if l.probes() {
			if probes == mostProbes || free <= 0 || size <= 0 || l.retry > longest {
				continue
			}
			probes++
			l.retry = now + l.probeWait()
		} else if size <= 0 || !f.schedule.roomy(l.where(), free) {
			f.hungry, l.backlogged = true, true
			continue
		}
		share := Share{Lane: l.lane, Part: l.part, Limit: free, Bytes: size}
		l.look, share.From = l.backlog.ask(now)
		shares = append(shares, share)
		f.turn = at + 1
		if l.attempts > 1 && now-l.failing < restFor && !reaching && !l.backlogged {
			l.rest = now + jittered(f.random, retryMax, 20)
		}
	}
	f.rest.whole = len(shares)+shutting == len(f.lanes)
	f.rationed = &f.part
	if slices.ContainsFunc(shares, func(s Share) bool { return f.lane(s.Where()).look == fromOldest }) {
		f.rationed = &f.whole
	}
	return shares, f.ration(shares, probes)
}

// ration divides what a claim may have evenly among its shares, of which some are probes, and returns how many bytes
// that is: no lane has all of the bytes, unless it is alone. Lanes have what they would have without the probes. These
// have as much as a lane of as many, on top of that. The caller holds mu.
func (f *firer) ration(shares []Share, probes int) int {
	messages, bytes := f.rationed.get()
	f.sharing = max(1, len(shares)-probes)
	all := bytes
	for i := range shares {
		share, among, probe := &shares[i], f.sharing, f.lane(shares[i].Where()).probes()
		if probe {
			among = len(shares)
		}
		share.Limit = max(1, min(share.Limit, messages/among))
		share.Bytes = max(1, min(share.Bytes, bytes/among))
		if probe {
			all += share.Bytes
		}
		f.rest.whole = f.rest.whole && share.From.IsZero()
	}
	return all
}

// lot is how much was claimed on a lane or part, in messages and in bytes.
type lot struct{ count, size int }

// lotsOf returns the lots of what was claimed, and how much the largest have. Each share is bounded by its part of the
// ration: so a claim that is full on one of many lanes proves as much as one that is full on all.
func lotsOf(claimed []Ready) (lots map[Part]lot, most lot) {
	lots = make(map[Part]lot, 1)
	for i := range claimed {
		m := &claimed[i]
		l := lots[m.Where()]
		l = lot{l.count + 1, l.size + m.Size()}
		lots[m.Where()] = l
		most = lot{max(most.count, l.count), max(most.size, l.size)}
	}
	return lots, most
}

// claimed notes on which lanes there is more than their shares, after a claim that began at a monotonic instant and
// what the wall clock had lapsed. Where something is unreadable there may be: the next claim does not find that again.
func (f *firer) claimed(
	started time.Duration, lapsed time.Time, result *ClaimResult, request ClaimRequest, lots map[Part]lot,
) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reached, through := request.Reached(result.Messages)
	for _, share := range request.Lanes[reached:] {
		f.lane(share.Where()).backlogged = true
	}
	if reached < len(request.Lanes) {
		f.turn = max(0, slices.Index(f.lanes, f.lane(request.Lanes[reached].Where())))
	}
	for i, share := range request.Lanes[:reached] {
		l := f.lane(share.Where())
		lot, interval := lots[share.Where()], f.config.PollInterval
		full := lot.count >= share.Limit || lot.size >= share.Bytes || slices.Contains(result.Unreadable, share.Lane) ||
			!through && i == reached-1
		switch {
		case l.part != "":
			l.backlogged = full && l.works
			continue
		case l.look == forLate: // what is overdue for longer is still there
			l.backlog.lately(lot.count, started, lapsed, share.From, interval, full)
			l.backlogged = true
		default:
			l.backlogged = full
			l.backlog.oldest(lot.count, started, lapsed, interval, full && f.sharable(share.Lane))
		}
		f.schedule.owes(share.Lane, l.backlogged, l.backlog.shared())
	}
}

// meet gets links to the lanes and parts that the schedule has found since the last time, and drops those that it has
// forgotten. The caller holds mu.
func (f *firer) meet() {
	served := map[Part]bool{}
	for _, at := range f.schedule.parts() {
		served[at] = true
		f.lane(at)
	}
	f.lanes = slices.DeleteFunc(f.lanes, func(l *laneLink) bool {
		forgotten := !served[l.where()]
		if forgotten {
			delete(f.named, l.where())
		}
		return forgotten
	})
}

// lane returns the link of a part of a lane. The caller holds mu.
func (f *firer) lane(at Part) *laneLink {
	l := f.named[at]
	if l == nil {
		l = &laneLink{link: f.link(Fire, PortSink, f.drawn), part: at.Name}
		l.lane = at.Lane
		f.lanes, f.named[at] = append(f.lanes, l), l
	}
	return l
}

func (l *laneLink) where() Part { return Part{l.lane, l.part} }

// recurred has the claimer look at once on the lanes of occurrences that are due already: a series that catches up
// comes out as fast as its lane takes it, and not once in each poll interval.
func (f *firer) recurred(next []Next) {
	until := f.lapsed().Add(f.config.Lookahead)
	var lanes []string
	for i := range next {
		if !next[i].At.After(until) {
			lanes = append(lanes, next[i].Of.Lane)
		}
	}
	f.look(lanes)
}

// standBack gives back what has not its turn (see Turn), and returns what has. What is only in each other's way is
// looked at again soon: two nodes have claimed two messages of a line at the same time.
//
// Each look at what stands behind others is a claim for nothing, and a hundred thousand may fall due at the same
// instant behind one that fails for a day. It is enough that of a line somebody is looked at now and then, whoever it
// is, since that brings the first one forward. So of those of a line that a claim has found the last one comes soon
// again: it is the one that is there longest. The others wait for as long as they are overdue, and the longer the more
// of them there are.
func (f *firer) standBack(ctx context.Context, claimed []Ready) (served []Ready) {
	if !slices.ContainsFunc(claimed, func(m Ready) bool { return m.Turn != ItsTurn }) {
		return claimed
	}
	now := f.clock.Now()
	var releases []Release
	put := func(m *Ready, wait time.Duration) {
		due := now.Add(f.config.Lookahead + jittered(f.random, wait, 20)).Truncate(time.Microsecond)
		if wait >= beat {
			due = due.Add(beat - time.Microsecond).Truncate(beat)
		}
		due = noSooner(&m.Message, due)
		releases = append(releases, Release{Claim: m.Claim, Due: due, Unsent: true, Behind: m.Turn == Behind})
	}
	behind := map[lineName]int{}
	for _, m := range lastFirst(claimed) {
		switch m.Turn {
		case ItsTurn:
			served = append(served, m)
		case InTheWay:
			put(&m, retryMin)
		case Behind:
			line, most := lineName{m.Lane, m.Line}, unsentRetryMax
			if behind[line] > 0 {
				most = behindMax
			}
			wait := max(now.Sub(m.Deadline), retryMin) + time.Duration(behind[line])*beat
			put(&m, min(wait, most))
			behind[line]++
		}
	}
	if wait := f.release(ctx, &f.releases, releases, f.settler.putOff); wait > 0 {
		f.storeRetry = f.clock.Mono() + wait
	}
	return served
}

const (
	// beat is the time between two instants at which what stands behind others falls due. While some of a line is
	// claimed, if only to find that it is not its turn, the first one is in the way of that (InTheWay). So what is to
	// be looked at of a line is looked at all at once, and the line gets on in between.
	beat = time.Second

	// behindMax is the longest that a message stands back.
	behindMax = 10 * time.Minute
)

// lineName names a line: of one lane.
type lineName struct {
	lane string
	line uuid.UUID
}

// lastFirst returns messages in the order of their lines, from their ends.
func lastFirst(claimed []Ready) []Ready {
	return slices.SortedStableFunc(slices.Values(claimed), func(a, b Ready) int {
		return cmp.Or(b.Deadline.Compare(a.Deadline), cmp.Compare(b.ID, a.ID))
	})
}

// moved has the claimer look at once on lanes on which something may have come forward in its line, since something was
// settled there.
func (f *firer) moved(settled []Ref) {
	var lanes []string
	for _, ref := range settled {
		if IsCallback(ref.Lane) && f.config.Callbacks.lane(ref.Lane).Ordered && !slices.Contains(lanes, ref.Lane) {
			lanes = append(lanes, ref.Lane)
		}
	}
	f.look(lanes)
}

// look has the claimer look at once on lanes, since there is something to be claimed.
func (f *firer) look(lanes []string) {
	if len(lanes) == 0 {
		return
	}
	f.mu.Lock()
	for _, lane := range lanes {
		f.lane(Part{Lane: lane}).backlogged = true
	}
	f.mu.Unlock()
	f.bell.Ring()
}

// fed wakes the claimer if it has left something in the store for want of room.
func (f *firer) fed() {
	f.mu.Lock()
	hungry := f.hungry && f.schedule.takes()
	if hungry {
		f.hungry = false
	}
	f.mu.Unlock()
	if hungry {
		f.bell.Ring()
	}
}

// laneWorks notes that something came through on a lane.
func (f *firer) laneWorks(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lane(Part{Lane: name})
	if l.attempts > 0 {
		f.probeAll(name)
	}
	l.succeeded()
	l.retry, l.rest, l.worked = 0, 0, f.clock.Mono()
}

// lately reports whether something came through on the lane not long ago. The caller holds mu.
func (f *firer) lately(l *laneLink) bool {
	return l.worked > 0 && f.clock.Mono()-l.worked < f.pace.publish+retryMax
}

// reaches reports whether something came through on any lane not long ago.
func (f *firer) reaches() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reaching()
}

// reaching is reaches for callers that hold mu.
func (f *firer) reaching() bool { return slices.ContainsFunc(f.lanes, f.lately) }

// laneFails notes that a batch failed as far as a lane is concerned, and returns whether the one before it had, too.
// Then the lane is claimed on no more for a while: for longer than its messages are put off, so that a peer that can
// publish on it comes first. Otherwise this node could claim the same messages each time they fall due, and keep
// them from its peers forever.
//
// A batch of which nothing was tried, because it belongs to parts that do not answer, is no failure of its lane, on a
// node that reaches brokers: it is parked, and the others would wait with it.
func (f *firer) laneFails(name string, err error) (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lane(Part{Lane: name})
	if unavailable(err) && f.reaching() {
		return false
	}
	again = l.attempts > 0
	wait := l.failed("publish", err)
	l.failing = f.clock.Mono()
	if again {
		l.retry = f.clock.Mono() + retryMax + wait
	}
	return again
}

// giveBack gives claims back to the store as they are, and reports whether the store has taken them. Nothing was sent
// under them.
func (f *firer) giveBack(ctx context.Context, held []*holding) bool {
	releases := make([]Release, len(held))
	for i, h := range held {
		releases[i] = Release{Claim: h.Claim, Part: h.Part, Unsent: true}
	}
	wait := f.release(ctx, &f.releases, releases, f.settler.putOff)
	if wait > 0 {
		f.storeRetry = f.clock.Mono() + wait
	}
	return wait == 0
}
