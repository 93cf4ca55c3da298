package sim

import (
	"context"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// storeServer is the database: the rows, a clock, row locks of transactions that take long, and its outages. What
// it keeps is kept by a real store of one process (the memory store unless the setup says otherwise), which
// makes each call atomic at the instant at which it is applied.
type storeServer struct {
	world *world
	rows  node.Store // the mutant's view of truth
	truth *truth
	clock clock

	refuses, silent int64 // until when
	locks           map[node.MessageID]int64
	unseen          map[node.MessageID]bool // the rows whose claims are not committed
	frozen          *time.Time              // what the clock says while the journal is replayed
	began           *time.Time              // what it said at the statement whose transaction ends now
	journal         []journaled
}

// journaled is one committed call, kept where a failover may lose the last ones.
type journaled struct {
	at    time.Time
	apply func(node.Store)
}

func newStoreServer(w *world, open func(now func() time.Time) node.Store) *storeServer {
	s := &storeServer{world: w, locks: map[node.MessageID]int64{}, unseen: map[node.MessageID]bool{}}
	s.clock.offset = int64(w.options.StoreSkew)
	s.truth = &truth{server: s, stored: map[node.MessageID]node.Claim{}}
	s.open(open)
	return s
}

// open begins with an empty store.
func (s *storeServer) open(open func(now func() time.Time) node.Store) {
	if open == nil {
		open = func(now func() time.Time) node.Store { return memory.New(now) }
	}
	s.truth.rows = open(s.now)
	s.rows = s.world.mutant.rows(s.truth)
}

// now is the store's clock.
func (s *storeServer) now() time.Time {
	if s.frozen != nil {
		return *s.frozen
	}
	if m := s.world.mutant; m != nil && m.NodeStamps && s.truth.caller != nil {
		return s.truth.caller.host.clock.wall(s.world.now)
	}
	return s.instant()
}

// instant is what the clock really says.
func (s *storeServer) instant() time.Time {
	if s.began != nil {
		return *s.began
	}
	return s.clock.wall(s.world.now)
}

func (s *storeServer) heal() {
	s.refuses, s.silent = s.world.now, s.world.now
	clear(s.locks)
}

// failover takes the store away for a while. The standby that takes over has another clock, and where commits are
// not waited for, it lacks the last ones.
func (s *storeServer) failover(away time.Duration, lost int) {
	w := s.world
	s.silent = max(s.silent, w.now+int64(away))
	step := time.Duration(stream(w.options.Seed, forClocks, -1, len(w.fired)).Int64N(int64(time.Second))) -
		500*time.Millisecond
	s.clock.offset += int64(step)
	w.judge.storeStepped()
	if !w.options.Lossy || lost == 0 {
		return
	}
	s.journal = s.journal[:len(s.journal)-min(lost, len(s.journal))]
	s.truth.muted = true
	clear(s.truth.stored)
	s.open(nil)
	for _, entry := range s.journal {
		s.frozen = &entry.at
		entry.apply(s.rows)
	}
	s.frozen = nil
	s.truth.muted = false
	w.judge.rolledBack(s.truth.claims())
}

// blocked returns when the locks of others on what a request needs are released, or false when there are none.
func (s *storeServer) blocked(r *request) (int64, bool) {
	if len(s.locks) == 0 {
		return 0, false
	}
	var until int64
	for _, id := range r.found() {
		until = max(until, s.locks[id])
	}
	return until, until > s.world.now
}

// found returns the ids of the rows that a request waits for and locks.
func (r *request) found() []node.MessageID {
	if r.finds == nil {
		return r.name
	}
	var found []node.MessageID
	for i, id := range r.name {
		if r.finds(i) {
			found = append(found, id)
		}
	}
	return found
}

// see takes note of the rows that a delete or a reset has found: it does nothing to one that comes later.
func (r *request) see() {
	if r.finds == nil {
		return
	}
	r.sees = make([]bool, len(r.name))
	for i := range r.name {
		r.sees[i] = r.finds(i)
	}
}

// seen returns the places, of the first n, of what a delete or a reset may do something to.
func (r *request) seen(n int) (places []int) {
	for i := range n {
		if r.sees == nil || r.sees[i] {
			places = append(places, i)
		}
	}
	return places
}

// at returns what is at places.
func at[E any](list []E, places []int) []E {
	there := make([]E, len(places))
	for n, i := range places {
		there[n] = list[i]
	}
	return there
}

// locked tells whether a transaction that is open has a lock on a row: a claim skips it.
func (s *storeServer) locked(m *node.Message) bool {
	return s.locks[node.MessageID{ID: m.ID, Topic: m.Topic}] > s.world.now
}

func (s *storeServer) lock(ids []node.MessageID, until int64) {
	w := s.world
	for _, id := range ids {
		s.locks[id] = until
	}
	w.at(until, action(func() {
		for _, id := range ids {
			if s.locks[id] <= w.now {
				delete(s.locks, id)
			}
		}
	}), 0)
}

// storePort is the Store port of one life.
type storePort struct{ life *life }

var _ node.Store = (*storePort)(nil)

// request is one call of the store.
type request struct {
	*call

	port *storePort
	name []node.MessageID      // what it locks, or waits for; nil for nothing
	do   func(rows node.Store) // the effect
	undo func(rows node.Store) // what takes it back, where it locks only what it finds

	sees []bool // which rows a delete or a reset that stays open has seen when it began; nil for all

	// finds tells whether a delete or a reset finds the row that it means, as far as it is committed: it waits for
	// and locks no other. nil for an insert, which waits for whoever has its id.
	finds func(i int) bool

	// begin is called when a transaction that stays open takes its locks: its statement sees what there is now. after
	// is called once that of an insert has committed, and says whether all is done then; nil for others.
	begin func()
	after func() bool
}

// perform sends the request to the server.
func (r *request) perform(ctx context.Context) error {
	w := r.port.life.host.world
	return r.call.perform(ctx, w.options.storeTimeout(), r.arrive)
}

// arrive applies the request at the server, unless it has to wait or the server is away.
func (r *request) arrive() bool {
	w := r.port.life.host.world
	s := w.store
	switch {
	case w.now < s.silent:
		r.spoilt().unanswered = true
		return true
	case w.now < s.refuses:
		r.answer = errRefused
		return true
	}
	if until, blocked := s.blocked(r); blocked {
		w.count("lock-wait")
		w.at(until+1, r.call, callArrives) // after the commit
		return false
	}
	if r.locked == 0 {
		s.apply(r)
		return true
	}
	// The transaction takes its locks now and commits later.
	until := w.now + int64(r.locked)
	r.locked = 0
	if r.begin != nil {
		r.begin()
	}
	r.see()
	if r.undo == nil {
		s.lock(r.found(), until)
		began := s.instant()
		r.apply = func() bool { return s.commit(r, began) }
	} else {
		s.truth.hold()
		s.apply(r)
		changes := s.truth.release()
		s.lock(r.name, until)
		for _, id := range r.name {
			s.unseen[id] = true
		}
		r.apply = func() bool { return s.settle(r, changes) }
	}
	w.at(until, r.call, callArrives)
	return false
}

// apply makes the effect of a request.
func (s *storeServer) apply(r *request) {
	w := s.world
	s.truth.caller = r.port.life
	before := s.truth.changes
	r.do(s.rows)
	if w.options.Lossy && s.truth.changes > before {
		s.journal = append(s.journal, journaled{s.now(), r.do})
	}
	if w.observe != nil {
		w.step(r.stepOf(StepApplied, ""))
	}
}

// commit ends a transaction that has held its locks for long. A claim that it makes is as old as its statement.
func (s *storeServer) commit(r *request, began time.Time) bool {
	if r.rolledBack {
		r.answer = errDisconnected
		return true
	}
	s.began = &began
	s.apply(r)
	s.began = nil
	return r.after == nil || r.after()
}

// settle ends a transaction whose effect nobody has seen yet: it becomes true, or is undone.
func (s *storeServer) settle(r *request, changes []func()) bool {
	for _, id := range r.name {
		delete(s.unseen, id)
	}
	if r.rolledBack {
		s.truth.hold()
		r.undo(s.rows)
		s.truth.release()
		r.answer = errDisconnected
		return true
	}
	for _, change := range changes {
		change()
	}
	return true
}

// Insert implements node.Store.
func (p *storePort) Insert(ctx context.Context, in node.InsertRequest) ([]node.InsertResult, error) {
	r := &request{call: p.life.begin(opInsert, &p.life.host.storeLink, func() []int {
		return mapped(in.Messages, func(m node.Insertion) int { return numberIn(m.Headers) })
	}), port: p}
	for i := range in.Messages {
		p.life.host.world.digest.text(in.Messages[i].ID)
	}
	results := make([]node.InsertResult, len(in.Messages))
	all := make([]int, r.items(len(in.Messages)))
	for i := range all {
		all[i] = i
	}
	r.insert(in, results, all)
	var met []int
	r.begin = func() {
		var free []int
		free, met = r.met(in, all)
		r.insert(in, results, free)
	}
	r.after = func() bool {
		gone, there := r.met(in, met)
		r.insert(in, results, there)
		p.life.host.world.store.apply(r)
		r.insert(in, results, gone)
		r.apply = r.arrive
		return len(gone) == 0 || r.arrive()
	}
	err := r.perform(ctx)
	if err != nil {
		return nil, err
	}
	return results, nil
}

// insert makes a request one to insert the messages of in at places.
func (r *request) insert(in node.InsertRequest, results []node.InsertResult, places []int) {
	part := in
	part.Messages = nil
	r.name = nil
	for _, i := range places {
		m := &in.Messages[i]
		part.Messages = append(part.Messages, *m)
		r.name = append(r.name, node.MessageID{ID: m.ID, Topic: m.Topic})
	}
	r.do = func(rows node.Store) {
		inserted, _ := rows.Insert(context.Background(), part)
		for n, i := range places {
			results[i] = inserted[n]
		}
	}
}

// met divides the messages of an insert into those with no row in their way and the others. A statement does nothing
// about the others and takes no locks for them. When its transaction has ended they are looked up, and where the row is
// gone by then, inserted after all.
func (r *request) met(in node.InsertRequest, places []int) (free, met []int) {
	stored := r.port.life.host.world.store.truth.stored
	for _, i := range places {
		if _, is := stored[node.MessageID{ID: in.Messages[i].ID, Topic: in.Messages[i].Topic}]; is {
			met = append(met, i)
		} else {
			free = append(free, i)
		}
	}
	return free, met
}

// Present implements node.Store.
func (p *storePort) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	r := &request{call: p.life.begin(opPresent, &p.life.host.storeLink, nil), port: p}
	var present []bool
	r.do = func(rows node.Store) { present, _ = rows.Present(context.Background(), ids) }
	err := r.perform(ctx)
	if err != nil {
		return nil, err
	}
	return present, nil
}

// Ready implements node.Store.
func (p *storePort) Ready(ctx context.Context, in node.ReadyRequest) ([]node.Readied, error) {
	r := &request{call: p.life.begin(opReady, &p.life.host.storeLink, nil), port: p}
	var claimed []node.Readied
	r.do = func(rows node.Store) {
		part := in
		part.Limit = max(r.items(in.Limit), 1)
		claimed, _ = rows.Ready(context.Background(), part)
		p.life.host.world.judge.readied(p.life, in, claimed)
		r.name = nil
		for i := range claimed {
			m := &claimed[i]
			p.life.host.world.digest.text(m.ID)
			if r.undo != nil {
				r.name = append(r.name, node.MessageID{ID: m.ID, Topic: m.Topic})
			}
		}
	}
	if r.locked > 0 {
		r.undo = func(rows node.Store) {
			releases := make([]node.Release, len(claimed))
			for i, c := range claimed {
				releases[i].Claim = c.Claim
			}
			_, _ = rows.Reset(context.Background(), releases)
		}
	}
	err := r.perform(ctx)
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// Delete implements node.Store.
func (p *storePort) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	r := &request{call: p.life.begin(opDelete, &p.life.host.storeLink, func() []int {
		return mapped(refs, p.life.host.world.judge.numberOf)
	}), port: p, name: idsOf(refs)}
	stored := p.life.host.world.store.truth.stored
	r.finds = func(i int) bool { return stored[r.name[i]].Incarnation == refs[i].Incarnation }
	var deleted []bool
	r.do = func(rows node.Store) {
		deleted = make([]bool, len(refs))
		seen := r.seen(r.items(len(refs)))
		part := at(refs, seen)
		done, _ := rows.Delete(context.Background(), part)
		for n, i := range seen {
			deleted[i] = done[n]
		}
		if s := p.life.host.world.store; !s.truth.muted {
			s.world.judge.deleteDone(p.life, part)
		}
	}
	err := r.perform(ctx)
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

func idsOf(refs []node.Ref) []node.MessageID {
	ids := make([]node.MessageID, len(refs))
	for i, ref := range refs {
		ids[i] = node.MessageID{ID: ref.ID, Topic: ref.Topic}
	}
	return ids
}

// Stuck implements node.Store.
func (p *storePort) Stuck(ctx context.Context, in node.StuckRequest) ([]node.Claim, error) {
	r := &request{call: p.life.begin(opStuck, &p.life.host.storeLink, nil), port: p}
	var stuck []node.Claim
	r.do = func(rows node.Store) {
		stuck, _ = rows.Stuck(context.Background(), in)
		stuck = slices.DeleteFunc(stuck, func(c node.Claim) bool {
			return p.life.host.world.store.unseen[node.MessageID{ID: c.ID, Topic: c.Topic}]
		})
		p.life.host.world.digest.number(uint64(len(stuck)))
	}
	err := r.perform(ctx)
	if err != nil {
		return nil, err
	}
	return stuck, nil
}

// Reset implements node.Store.
func (p *storePort) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	r := &request{call: p.life.begin(opReset, &p.life.host.storeLink, func() []int {
		return mapped(releases, func(r node.Release) int { return p.life.host.world.judge.numberOf(r.Ref) })
	}), port: p}
	stored := p.life.host.world.store.truth.stored
	r.finds = func(i int) bool { return stored[r.name[i]] == releases[i].Claim }
	for _, release := range releases {
		r.name = append(r.name, node.MessageID{ID: release.ID, Topic: release.Topic})
		p.life.host.world.digest.text(release.ID)
	}
	var reset []bool
	r.do = func(rows node.Store) {
		reset = make([]bool, len(releases))
		seen := r.seen(r.items(len(releases)))
		done, _ := rows.Reset(context.Background(), at(releases, seen))
		for n, i := range seen {
			reset[i] = done[n]
		}
	}
	err := r.perform(ctx)
	if err != nil {
		return nil, err
	}
	return reset, nil
}

// storeTimeout is the time limit that node.Config sets to a call of the store.
func (o *Options) storeTimeout() time.Duration {
	return (&node.Config{HoldTime: o.HoldTime}).StoreTimeout()
}

// publishTimeout is the time limit that node.Config sets to a publish.
func (o *Options) publishTimeout() time.Duration {
	return (&node.Config{HoldTime: o.HoldTime}).PublishTimeout()
}
