package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// Result is what one scenario has shown.
type Result struct {
	Scenario string
	Seed     uint64
	Backend  string
	Faults   int
	Schedule string

	// Submitted were acknowledged, Unknown were not.
	Submitted, Unknown int

	// Verdict is the judge's; Broken lists what the scenario itself demands and was not met.
	Verdict check.Verdict
	Broken  []string

	// Resumed is how long after the healing something fired for the first time; -1 if nothing did.
	Resumed time.Duration

	// Busy is the longest that a server has taken to answer the suite while no fault was there, where that was longer
	// than usual: what the machine itself has added to times.
	Busy time.Duration

	History string // the file
	Took    time.Duration

	timeline timeline
}

// Passed reports whether nothing was broken.
func (r *Result) Passed() bool { return len(r.Verdict.Violations) == 0 && len(r.Broken) == 0 }

// ErrImpossible is what Run returns where this machine or the backend can't do what the scenario needs, such as to
// mount a file system.
var ErrImpossible = servers.ErrImpossible

// run is one scenario on its cluster.
type run struct {
	*cluster

	history   *history
	submitter *submitter
	nemesis   *nemesis
	tasker    *tasker       // nil without tasks
	events    []check.Event // in the end, in their order
}

// Run runs a scenario from beginning to end: servers, nodes, workload, faults, healing, draining, verdict. The result
// is complete where the error is nil, which says nothing about whether it has passed. Prepare has completed the
// configuration. Several may run at once.
func Run(ctx context.Context, s *Scenario, config Config) (result *Result, err error) {
	begin := time.Now()
	if config.Kafka != "" && s.Servers {
		return nil, fmt.Errorf("%w: the servers were given, and are not the suite's own", ErrImpossible)
	}
	if config.Start != "" && s.Commands {
		return nil, fmt.Errorf("%w: it uses commands of chronos, which others do not have", ErrImpossible)
	}
	if config.Start != "" && s.Hosts > 0 {
		return nil, fmt.Errorf("%w: another implementation makes no callbacks", ErrImpossible)
	}
	if config.Start != "" && s.Journal {
		return nil, fmt.Errorf("%w: another implementation has no journal", ErrImpossible)
	}
	c, err := newCluster(ctx, config, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	h := newHistory()
	r := &run{cluster: c, history: h, nemesis: newNemesis(c, h, config.Seed)}
	if r.submitter, err = newSubmitter(c, h, config.Seed, s.Rate); err != nil {
		return nil, err
	}
	r.submitter.resubmit, r.submitter.second = s.Resubmit, s.SecondRoute
	r.submitter.instructs, r.submitter.keyed, r.submitter.places = s.Instructions, s.Journal, s.Locks
	if c.receivers != nil {
		c.receivers.history = h
		r.submitter.receivers, r.submitter.asks = c.receivers, s.Asks
		r.submitter.asker = newAsker(c)
		r.nemesis.callOften = r.submitter.callOften
	}
	r.nemesis.flood, r.nemesis.each, r.nemesis.repeat = r.submitter.flood, r.submitter.each, r.submitter.repeat
	defer r.submitter.kafka.Close()
	if err := r.play(ctx); err != nil {
		return nil, err
	}
	result = &Result{
		Scenario: s.Name, Seed: config.Seed, Backend: c.servers.Backend(), Faults: r.nemesis.struck,
		Schedule: r.nemesis.schedule(), History: filepath.Join(config.Dir, "history.txt"), Resumed: -1,
	}
	result.Submitted, result.Unknown = r.submitter.counts()
	result.Busy = h.slowest()
	if err := r.blame(); err != nil {
		return nil, err
	}
	if result.Verdict, r.events, err = h.verdict(r.judged(), result.History); err != nil {
		return nil, err
	}
	r.measure(result)
	if open := r.submitter.open(); len(open) > 0 && result.Passed() {
		result.Broken = append(result.Broken, fmt.Sprintf("nothing has come of %d submissions, such as %d",
			len(open), open[0]))
	}
	for _, d := range append([]demand{sorted}, s.demands...) {
		if broken := d(r, result); broken != "" {
			result.Broken = append(result.Broken, broken)
		}
	}
	result.timeline = draw(r.events)
	result.Took = time.Since(begin)
	return result, nil
}

// play lets everything happen.
func (r *run) play(ctx context.Context) error {
	defer r.history.close(context.WithoutCancel(ctx), r.cluster)
	r.tell, r.deleted = r.told, r.history.delete
	if r.scenario.prepare != nil {
		if err := r.scenario.prepare(ctx, r); err != nil {
			return err
		}
	}
	if err := r.history.collect(ctx, r.cluster); err != nil {
		return err
	}
	r.scenario.draw(r.nemesis)
	r.say("the schedule, drawn from seed %d:\n%s", r.config.Seed, r.nemesis.schedule())
	first := r.nodes
	if r.scenario.First > 0 {
		first = r.nodes[:r.scenario.First]
	}
	for _, n := range first {
		if err := n.start(ctx, r.config.Start == ""); err != nil {
			return err
		}
	}
	submitting, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.submitter.run(submitting)
	}()
	if err := r.task(submitting); err != nil {
		return err
	}
	begin := time.Now()
	err := r.nemesis.run(ctx, begin)
	sleepUntil(ctx, begin.Add(r.scenario.Lasts))
	if err != nil {
		return err
	}
	if err := r.heal(ctx); err != nil {
		return err
	}
	r.say("healed; submitting for %v more", afterwards)
	sleepUntil(ctx, r.history.healed().Add(afterwards))
	stop()
	<-done
	if err := r.tasker.await(ctx); err != nil {
		return err
	}
	return r.drain(ctx)
}

// task has tasks come, where the scenario is about some, and returns when they are about to be executed: faults are to
// strike meanwhile, however long it takes to bring them.
func (r *run) task(ctx context.Context) error {
	if r.scenario.Tasks == 0 {
		return nil
	}
	t, address, err := newTasker(r.cluster, r.submitter.asker, r.history.unhealed)
	if err != nil {
		return err
	}
	r.tasker = t
	t.run(ctx, address) // it ends with the last request, which is repeated for a while only
	return nil
}

// afterwards is how long the client goes on after the healing.
const afterwards = 3 * time.Second

// told takes what the nodes' processes do into the history. Of a node that has never said its id, nothing is known.
func (r *run) told(event, name, id string) {
	kind := map[string]check.Kind{
		"start": check.Start, "term": check.Term, "stop": check.Stop, "crash": check.Crash,
	}[event]
	e := check.Event{Kind: kind, Node: name, At: r.history.now()}
	if kind == check.Start {
		return // its id is not known yet: introduce tells of it later
	}
	r.introduce(name, id)
	r.history.add(e)
}

// introduce tells of the start of a process, once its id is known.
func (r *run) introduce(name, id string) {
	owner, err := check.ParseUUID(id)
	if err != nil {
		return
	}
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	known := slices.ContainsFunc(r.history.events, func(e check.Event) bool {
		return e.Kind == check.Start && e.Node == name
	})
	if !known {
		r.history.events = append(r.history.events, check.Event{Kind: check.Start, Node: name, Owner: owner, At: 1})
	}
}

// heal mends what is left, starts what is down, and waits until the servers are whole.
func (r *run) heal(ctx context.Context) error {
	for _, n := range r.nodes {
		n.thaw()
		if n.cutter != nil {
			n.cutter.spare()
		}
		ways := n.links()
		if n.api != nil {
			ways = append(slices.Clone(ways), n.api)
		}
		if err := mendAll(ctx, ways); err != nil {
			return err
		}
	}
	if err := r.receivers.heal(ctx); err != nil {
		return err
	}
	if err := r.storeReady(ctx); err != nil {
		return err
	}
	if err := r.kafka.Whole(ctx, 2*time.Minute); err != nil {
		return err
	}
	r.history.heal()
	if r.nodes[0].life == nil {
		return r.nodes[0].start(ctx, false)
	}
	return nil
}

// drain waits until everything has come out and the table is empty, or the bound has passed. On a machine that is busy
// all the time no bound means anything: that is an error.
func (r *run) drain(ctx context.Context) error {
	const (
		longest = 10 * time.Second // the delays of the workload
		most    = 10 * time.Minute
	)
	config := r.judged()
	// The judge's bound grows with the number of submissions: what ends before it loses without being told.
	acknowledged, unknown := r.submitter.counts()
	config.Messages = acknowledged + unknown
	bound := afterwards + longest + config.Drained()
	for time.Since(r.history.healed()) < bound && ctx.Err() == nil {
		open, left := r.submitter.open(), r.left(ctx)
		if len(open) == 0 && left == 0 && r.submitter.untold() == 0 {
			break
		}
		if time.Since(r.history.machine.mended) > most {
			return fmt.Errorf("the machine is too busy: for %v answers have taken up to %v", most, r.history.slowest())
		}
		sleepUntil(ctx, time.Now().Add(200*time.Millisecond))
	}
	r.say("drained %v after the healing; %d submissions are open, %d rows are left",
		time.Since(r.history.healed()).Round(time.Millisecond), len(r.submitter.open()), r.left(ctx))
	if r.receivers != nil && len(r.submitter.open()) == 0 {
		if err := r.receivers.goneQuiet(ctx, config.PublishableAge); err != nil {
			return err
		}
	}
	if r.scenario.Journal {
		r.history.goneQuiet(ctx)
	}
	for _, n := range r.nodes {
		if n.life != nil && n.life.learn() == nil {
			r.introduce(n.life.name, n.life.id)
		}
	}
	r.history.close(ctx, r.cluster)
	r.history.add(check.Event{Kind: check.End})
	return ctx.Err()
}

// left counts the messages that wait: rows of the table, or entries of the journal; 1 while nobody can tell. Of another
// implementation nothing is known.
func (r *run) left(ctx context.Context) int {
	if r.scenario.Journal {
		return r.history.leftInJournal(ctx)
	}
	if r.config.Start != "" {
		return 0
	}
	count := 1
	_ = r.postgres.now().Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*) FROM "+table+"").Scan(&count)
	}) // nobody can tell
	return count
}

// judged is what the judge is told: the configuration of the nodes, and what a busy small machine takes at the worst
// for a call with which nothing goes wrong.
func (r *run) judged() check.Config {
	hold := r.config.HoldTime
	c := check.Config{
		Recorded: []check.Kind{check.Submit, check.Fire, check.Copy, check.Fault, check.Heal},
		HoldTime: hold, PollInterval: 100 * time.Millisecond,
		DetectionInterval: 500 * time.Millisecond, Lookahead: 250 * time.Millisecond, LeaveAfter: 10 * time.Second,
		StoreTimeout: storeTimeout(hold), PublishTimeout: hold * 4 / 10, PublishableAge: hold / 2,
		Retry: 2 * time.Second, StandBack: 2500 * time.Millisecond,
		StoreLatency: storeLatency, BrokerLatency: brokerLatency,
		ClockError: 2 * time.Millisecond, Session: 10 * time.Second, Rebalance: 30 * time.Second,
		Settle: 10 * time.Second, Nodes: len(r.nodes), Lanes: len(r.topics.outputs()), Batch: 500,
		DeadLetter: true,
	}
	if r.receivers != nil {
		// What has failed for as long as faults strike is put off for twice as long at most, and a fifth; and a host
		// that could not be reached is tried after half a minute at the latest.
		c.Lanes++
		c.CallWait = max(r.scenario.Lasts*12/5, 30*time.Second)
		c.RetryFor = r.scenario.RetryFor
	}
	if r.config.Start == "" {
		c.Recorded = append(c.Recorded, check.Start, check.Term, check.Stop, check.Crash, check.Cut)
	}
	if r.follows() {
		c.Recorded = append(c.Recorded, check.Insert, check.Claim, check.Reset, check.Delete, check.DeleteDone,
			check.Pause, check.Resume)
	}
	return c
}

// storeTimeout is the time limit of a call of the store: node.Config has it.
func storeTimeout(hold time.Duration) time.Duration { return hold * 3 / 10 }

// measure finds out how soon something fired again when everything was mended.
func (r *run) measure(result *Result) {
	mended := r.history.machine.mended.Sub(r.history.since)
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Fire && e.At >= mended {
			result.Resumed = e.At - mended
			return
		}
	}
}

func (r *run) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.config.Say, format+"\n", args...) // nobody minds a line less
}
