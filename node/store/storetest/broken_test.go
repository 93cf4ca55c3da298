package storetest_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// brokenVariable names, in the environment of a test process, the broken store that TestBroken runs the suite on.
const brokenVariable = "STORETEST_BROKEN"

// mutant is a store that is broken in one way.
type mutant struct {
	name string

	// caught is the case of the suite that must fail, with the spaces as they are in its name.
	caught string

	// random says that the random calls must find it as well, without the named cases.
	random bool

	open func(clock *storetest.Clock) storetest.Instance
}

// TestBroken runs the suite on the broken store that the environment names. Without a name the store is intact: then
// it is the proof that wrapping a store does not fail the suite by itself.
func TestBroken(t *testing.T) {
	open := intact
	if name := os.Getenv(brokenVariable); name != "" {
		i := slices.IndexFunc(mutants(), func(m mutant) bool { return m.name == name })
		if i < 0 {
			t.Fatalf("no store is broken in the way %q", name)
		}
		open = mutants()[i].open
	}
	storetest.Run(t, func(*testing.T) storetest.Instance { return open(storetest.NewClock()) })
}

// TestSuiteFindsBrokenStores runs TestBroken in a process of its own for each broken store, and checks that it fails
// where it must. A suite that passes whatever it is given proves nothing.
func TestSuiteFindsBrokenStores(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if !fails(t, m.name, "TestBroken/"+strings.ReplaceAll(m.caught, " ", "_")) {
				t.Errorf("the case %q did not fail", m.caught)
			}
			if m.random && !fails(t, m.name, "TestBroken/random") {
				t.Error("random calls did not find it")
			}
		})
	}
}

// fails runs one test on a broken store and reports whether it failed. It is an error that it did not run.
func fails(t *testing.T, name, test string) bool {
	t.Helper()
	parts := strings.Split(test, "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	command := exec.CommandContext(
		t.Context(), os.Args[0], "-test.v", "-test.run", strings.Join(parts, "/"), "-test.timeout", "1m",
		"-rapid.nofailfile", "-rapid.shrinktime", "1ns", "-rapid.seed", "2", "-rapid.checks", "4000",
	)
	command.Env = append(os.Environ(), brokenVariable+"="+name)
	output, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	switch {
	case strings.Contains(string(output), "--- FAIL: "+test+" "):
		return true
	case strings.Contains(string(output), "--- PASS: "+test+" ") && err == nil:
		return false
	}
	t.Fatalf("%s neither passed nor failed: %v\n%s", test, err, output)
	return false
}

// broken is the memory model with some of its methods replaced.
type broken struct {
	*memory.Store

	bind      func(context.Context, node.BindRequest) (node.Bound, error)
	positions func(context.Context, []node.Place) ([]node.Position, node.State, error)
	take      func(context.Context, node.TakeRequest) (node.TakeResult, error)
	catchUp   func(context.Context, node.CatchUpRequest) (node.State, error)
	claim     func(context.Context, node.ClaimRequest) (node.ClaimResult, error)
	settle    func(context.Context, []node.Next) ([]node.Settled, error)
	expired   func(context.Context, int) ([]node.Claim, error)
	reset     func(context.Context, []node.Release) ([]node.Settled, error)
	parts     func(context.Context) ([]node.Part, error)

	// tripped is the id of the message at which the take of a store that can fail does so.
	tripped string
}

// breakIt returns an instance of the memory model after change has replaced some of its methods.
func breakIt(change func(b *broken, clock *storetest.Clock)) func(*storetest.Clock) storetest.Instance {
	return func(clock *storetest.Clock) storetest.Instance {
		inner := memory.New(clock.Now)
		b := &broken{
			Store: inner, bind: inner.Bind, positions: inner.Positions, take: inner.Take, catchUp: inner.CatchUp,
			claim: inner.Claim, settle: inner.Settle, expired: inner.Expired, reset: inner.Reset,
			parts: inner.Parts,
		}
		change(b, clock)
		return storetest.Instance{
			Store: b, Clock: clock,
			Dump:    func(testing.TB) []memory.Row { return inner.Dump() },
			Answers: func(testing.TB) int { return inner.Answers() },
			Promote: func(testing.TB) { inner.Promote() },
			Upgrade: func(testing.TB) { inner.Upgrade() },
			Lock:    func(_ testing.TB, locks memory.Locks) func() { return inner.Lock(locks) },
			Trip: func(_ testing.TB, id string) func() {
				b.tripped = id
				return func() { b.tripped = "" }
			},
		}
	}
}

func intact(clock *storetest.Clock) storetest.Instance {
	return breakIt(func(*broken, *storetest.Clock) {})(clock)
}

func (b *broken) Bind(ctx context.Context, request node.BindRequest) (node.Bound, error) {
	return b.bind(ctx, request)
}

func (b *broken) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	return b.positions(ctx, places)
}

// Take fails, without having done anything, when it meets the message at which the store trips.
func (b *broken) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if b.tripped != "" && slices.ContainsFunc(request.Items, func(i node.Item) bool { return i.ID == b.tripped }) {
		return node.TakeResult{}, errors.New("tripped")
	}
	return b.take(ctx, request)
}

func (b *broken) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	return b.catchUp(ctx, request)
}

func (b *broken) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	return b.claim(ctx, request)
}

func (b *broken) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	return b.settle(ctx, next)
}

func (b *broken) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	return b.expired(ctx, limit)
}

func (b *broken) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	return b.reset(ctx, releases)
}

func (b *broken) Parts(ctx context.Context) ([]node.Part, error) { return b.parts(ctx) }

// position returns that of a partition, if it has one.
func (b *broken) position(ctx context.Context, place node.Place) (node.Position, bool) {
	result, err := b.Store.Take(ctx, node.TakeRequest{From: []node.Place{{
		Partition: place.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: math.MinInt64},
	}}})
	return result.Positions[0], err == nil && !result.Refused[0]
}

// row returns what is stored under a name.
func (b *broken) row(id, lane string) (memory.Row, bool) {
	for _, row := range b.Dump() {
		if row.ID == id && row.Lane == lane {
			return row, true
		}
	}
	return memory.Row{}, false
}

// takeOf breaks Take by asking for something else.
func takeOf(ask func(ctx context.Context, b *broken, r *node.TakeRequest)) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			r.From, r.Items = slices.Clone(r.From), slices.Clone(r.Items)
			ask(ctx, b, &r)
			return b.Store.Take(ctx, r)
		}
	})
}

// eachMessage breaks Take by changing every item that has a message on its way in.
func eachMessage(change func(*node.Item)) func(*storetest.Clock) storetest.Instance {
	return takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
		for i := range r.Items {
			if r.Items[i].Action == node.Schedule {
				change(&r.Items[i])
			}
		}
	})
}

// eachResult breaks Take by changing every result on its way out, given what was stored before.
func eachResult(
	change func(b *broken, before []memory.Row, r node.TakeRequest, i int, result *node.ItemResult),
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			before := b.Dump()
			result, err := b.Store.Take(ctx, r)
			for i := range result.Results {
				change(b, before, r, i, &result.Results[i])
			}
			return result, err
		}
	})
}

// stores reports whether there is a row of that incarnation.
func stores(rows []memory.Row, ref node.Ref) bool {
	return slices.ContainsFunc(rows, func(row memory.Row) bool { return row.Ref() == ref })
}

// eachRelease breaks Reset by changing every release, given the row that it is for.
func eachRelease(change func(*node.Release, memory.Row)) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.reset = func(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
			releases = slices.Clone(releases)
			for i := range releases {
				if row, found := b.row(releases[i].ID, releases[i].Lane); found {
					change(&releases[i], row)
				}
			}
			return b.Store.Reset(ctx, releases)
		}
	})
}

// claimOf breaks Claim by asking for something else and returning something else.
func claimOf(
	ask func(*node.ClaimRequest), answer func(ctx context.Context, b *broken, r []node.Ready) []node.Ready,
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.claim = func(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
			request.Lanes = slices.Clone(request.Lanes)
			ask(&request)
			result, err := b.Store.Claim(ctx, request)
			result.Messages = answer(ctx, b, result.Messages)
			return result, err
		}
	})
}

func asAsked(*node.ClaimRequest) {}

func asTaken(_ context.Context, _ *broken, r []node.Ready) []node.Ready { return r }

// eachShare changes every share of a claim.
func eachShare(change func(*node.Share)) func(*node.ClaimRequest) {
	return func(r *node.ClaimRequest) {
		for i := range r.Lanes {
			change(&r.Lanes[i])
		}
	}
}

// expiredOf breaks Expired by choosing among all expired claims.
func expiredOf(choose func(all []node.Claim, limit int) []node.Claim) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.expired = func(ctx context.Context, limit int) ([]node.Claim, error) {
			all, err := b.Store.Expired(ctx, math.MaxInt)
			return choose(all, limit), err
		}
	})
}

// catchUpOf breaks CatchUp by asking for something else.
func catchUpOf(
	ask func(ctx context.Context, b *broken, r *node.CatchUpRequest),
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.catchUp = func(ctx context.Context, r node.CatchUpRequest) (node.State, error) {
			r.Marks = slices.Clone(r.Marks)
			ask(ctx, b, &r)
			return b.Store.CatchUp(ctx, r)
		}
	})
}

// bindOf breaks Bind by asking for something else.
func bindOf(ask func(b *broken, r *node.BindRequest)) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.bind = func(ctx context.Context, r node.BindRequest) (node.Bound, error) {
			ask(b, &r)
			return b.Store.Bind(ctx, r)
		}
	})
}

func mutants() []mutant {
	return slices.Concat(
		takeMutants(), positionMutants(), lineageMutants(), payloadMutants(), claimMutants(), recoverMutants(),
		concurrentMutants(), sessionMutants(), pauseMutants(), controlMutants(), pastMutants(),
		answerMutants(), seriesMutants(), lineMutants(), partMutants(), transferMutants(), busyMutants(),
	)
}

// TestMutantNames checks that every broken store can be named by itself.
func TestMutantNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutants() {
		if seen[m.name] {
			t.Errorf("two broken stores are called %q", m.name)
		}
		seen[m.name] = true
	}
}
