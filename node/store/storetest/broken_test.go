package storetest_test

import (
	"context"
	"errors"
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

// fails runs one test on a broken store and says whether it failed. It is an error that it did not run.
func fails(t *testing.T, name, test string) bool {
	t.Helper()
	parts := strings.Split(test, "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	command := exec.CommandContext(
		t.Context(), os.Args[0], "-test.v", "-test.run", strings.Join(parts, "/"), "-test.timeout", "1m",
		"-rapid.nofailfile", "-rapid.shrinktime", "1ns", "-rapid.seed", "1", "-rapid.checks", "500",
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

	insert  func(context.Context, node.InsertRequest) ([]node.InsertResult, error)
	present func(context.Context, []node.MessageID) ([]bool, error)
	ready   func(context.Context, node.ReadyRequest) ([]node.Readied, error)
	delete  func(context.Context, []node.Ref) ([]bool, error)
	stuck   func(context.Context, node.StuckRequest) ([]node.Claim, error)
	reset   func(context.Context, []node.Release) ([]bool, error)
}

// breakIt returns an instance of the memory model after change has replaced some of its methods.
func breakIt(change func(b *broken, clock *storetest.Clock)) func(*storetest.Clock) storetest.Instance {
	return func(clock *storetest.Clock) storetest.Instance {
		inner := memory.New(clock.Now)
		b := &broken{
			Store: inner, insert: inner.Insert, present: inner.Present, ready: inner.Ready,
			delete: inner.Delete, stuck: inner.Stuck, reset: inner.Reset,
		}
		change(b, clock)
		return storetest.Instance{
			Store: b, Clock: clock, Dump: func(testing.TB) []memory.Row { return inner.Dump() },
		}
	}
}

func intact(clock *storetest.Clock) storetest.Instance {
	return breakIt(func(*broken, *storetest.Clock) {})(clock)
}

func (b *broken) Insert(
	ctx context.Context, request node.InsertRequest,
) ([]node.InsertResult, error) {
	return b.insert(ctx, request)
}

func (b *broken) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	return b.present(ctx, ids)
}

func (b *broken) Ready(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
	return b.ready(ctx, request)
}

func (b *broken) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	return b.delete(ctx, refs)
}

func (b *broken) Stuck(ctx context.Context, request node.StuckRequest) ([]node.Claim, error) {
	return b.stuck(ctx, request)
}

func (b *broken) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	return b.reset(ctx, releases)
}

// row returns what is stored under a name.
func (b *broken) row(id, topic string) (memory.Row, bool) {
	for _, row := range b.Dump() {
		if row.ID == id && row.Topic == topic {
			return row, true
		}
	}
	return memory.Row{}, false
}

// eachMessage breaks Insert by changing every message on its way in.
func eachMessage(change func(*node.Insertion)) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
			r.Messages = slices.Clone(r.Messages)
			for i := range r.Messages {
				change(&r.Messages[i])
			}
			return b.Store.Insert(ctx, r)
		}
	})
}

// eachResult breaks Insert by changing every result on its way out.
func eachResult(
	change func(b *broken, owner node.InsertRequest, i int, result *node.InsertResult),
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
			results, err := b.Store.Insert(ctx, r)
			for i := range results {
				change(b, r, i, &results[i])
			}
			return results, err
		}
	})
}

// eachRelease breaks Reset by changing every release, given the row that it is for.
func eachRelease(change func(*node.Release, memory.Row)) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.reset = func(ctx context.Context, releases []node.Release) ([]bool, error) {
			releases = slices.Clone(releases)
			for i := range releases {
				if row, found := b.row(releases[i].ID, releases[i].Topic); found {
					change(&releases[i], row)
				}
			}
			return b.Store.Reset(ctx, releases)
		}
	})
}

// readyOf breaks Ready by asking for something else and returning something else.
func readyOf(
	ask func(*node.ReadyRequest), answer func(ctx context.Context, b *broken, r []node.Readied) []node.Readied,
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.ready = func(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
			ask(&request)
			readied, err := b.Store.Ready(ctx, request)
			return answer(ctx, b, readied), err
		}
	})
}

func asAsked(*node.ReadyRequest) {}

func asTaken(_ context.Context, _ *broken, r []node.Readied) []node.Readied { return r }

// stuckOf breaks Stuck by asking for something else.
func stuckOf(ask func(*node.StuckRequest)) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.stuck = func(ctx context.Context, request node.StuckRequest) ([]node.Claim, error) {
			ask(&request)
			return b.Store.Stuck(ctx, request)
		}
	})
}

func mutants() []mutant {
	return slices.Concat(
		insertMutants(), payloadMutants(), readyMutants(), recoverMutants(), concurrentMutants(),
		sessionMutants(),
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
