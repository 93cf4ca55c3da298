// Package storetest is the one conformance suite for node.Store. Run it from the tests of an adapter:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Instance {
//			clock := storetest.NewClock()
//			return storetest.Instance{Store: memory.New(clock.Now), Clock: clock}
//		})
//	}
//
// It has these parts, which are subtests:
//
//   - contract: a named case for every sentence of the contract in node/store.go, and for every byte that a
//     Kafka record may hold and a database may not;
//   - failure, history, upgrade: what needs something done to the database from outside: a failure in the middle of a
//     take, another server with another history, an older deployment's data;
//   - session: what a call does while another session has changed the same rows and not committed yet, where the
//     adapter can open one (hazards H12, H21, H23, H30 of docs/CORRECTNESS.md);
//   - concurrent: callers that race, of which each row may have one winner only;
//   - random: rapid's state machine, random calls on the store and on the memory model at once, whose results and
//     rows must be equal after each call.
//
// The package's own tests run the suite on stores that are broken on purpose, each in one way, and check that it
// fails.
package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// Instance is a store under test and what the suite may do to it from outside.
type Instance struct {
	// Store is the store. It is empty, and nobody else uses its rows.
	Store node.Store

	// Peer is another store on the same rows, as a second node has it, with connections of its own. Nil: the
	// races are between callers of Store.
	Peer node.Store

	// Clock is the clock that the store was given. Nil: the store has a clock of its own that nobody can
	// set, as a database server has. A store that is given a clock is deterministic: it must return the same
	// as the memory model also where the contract leaves a choice, in the order of claims of one age.
	Clock *Clock

	// Largest is the size of the largest message that the store takes, if that is less than 1 MiB; 0 otherwise.
	Largest int

	// Dump returns all rows in the order of their ids, then lanes, both compared as bytes. Nil: the suite
	// looks at the rows through the port only.
	Dump func(t testing.TB) []memory.Row

	// Answers returns how many answers to requests the store holds, those that have expired included. Nil: nobody can
	// look.
	Answers func(t testing.TB) int

	// Trip makes the database fail whenever it is about to store a message of that id, with an error that is not about
	// the message, until mend is called. Nil where nothing can fail.
	Trip func(t testing.TB, id string) (mend func())

	// Promote makes the store suspect, as another history of its server does. Nil where there is no such thing, or no
	// way to make it happen.
	Promote func(t testing.TB)

	// Upgrade makes the store one that comes from an older deployment, as the migration does, and so waits for the one
	// adoption of its positions. Nil where no older deployment can have been.
	Upgrade func(t testing.TB)

	// Lock locks messages and partitions as another session does, until unlock is called. Nil where there can be no
	// second session; then there are no cases about what is busy.
	Lock func(t testing.TB, locks memory.Locks) (unlock func())

	// Hasty is Store as it is in production, if Store waits for what is locked for longer, so that a case can watch a
	// call wait. Nil: Store.
	Hasty node.Store

	// Begin opens a transaction on the store's database. Nil where there can be no second session; then there
	// are no session cases.
	Begin func(t testing.TB) Session
}

// Session is a transaction of another client on the same database, open until Commit or Rollback. Its methods
// act at once, make the test fail on an error, and are called by one goroutine. The adapter rolls back what is
// still open when the test ends.
type Session interface {
	// Insert stores m as a waiting message.
	Insert(m node.Message)

	// Move sets the position of a partition that has one.
	Move(place node.Place)

	// Delete removes the message of that incarnation.
	Delete(ref node.Ref)

	// Claim makes node the owner of the message, from now on and whoever holds it. The claim expires at once.
	Claim(ref node.Ref, owner uuid.UUID)

	// Waiting says whether a call to the store is waiting for this transaction at this moment. It asks the
	// database; it does not guess from the time that has passed. It may be called while the transaction is open.
	Waiting() bool

	// Commit ends the transaction, and its changes take effect.
	Commit()

	// Rollback ends the transaction without effect.
	Rollback()
}

// Clock is a clock that moves only when it is told to. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows an ordinary instant, in no whole microsecond and not in UTC: a store has
// to cut and convert what it reads.
func NewClock() *Clock {
	zone := time.FixedZone("somewhere", 5*60*60+45*60)
	return &Clock{now: time.Date(2025, 6, 1, 12, 0, 0, 123456789, zone)}
}

// Now returns the instant that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, back when d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Run runs the suite. It calls open for an empty store at the start of every case, one case at a time; open
// leaves closing to t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Instance) {
	t.Helper()
	t.Run("contract", func(t *testing.T) {
		runCases(t, open, contractCases())
	})
	t.Run("failure", func(t *testing.T) {
		if open(t).Trip != nil {
			runCases(t, open, []testCase{{"a take that fails in the middle leaves nothing", takeAtomic}})
		}
	})
	t.Run("history", func(t *testing.T) {
		if open(t).Promote != nil {
			runCases(t, open, []testCase{{"a suspect store claims nothing and takes nothing in", lineageSuspect}})
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		if open(t).Upgrade != nil {
			runCases(t, open, upgradeCases())
		}
	})
	t.Run("session", func(t *testing.T) {
		if open(t).Begin != nil {
			runCases(t, open, sessionCases())
		}
	})
	t.Run("busy", func(t *testing.T) {
		if open(t).Lock != nil {
			runCases(t, open, busyCases())
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		runCases(t, open, append(concurrentCases(), controlRaceCases()...))
	})
	t.Run("random", func(t *testing.T) {
		runRandom(t, open(t))
	})
}

// RunOwned runs the cases for a store whose partitions have owners, of which one is open: what a store promises of
// messages, claims, instructions, series, lines and pauses. What concerns the store as a whole, and is set back, moved
// or asked past Kafka, is not among them, nor are callers that race for a row of two stores.
func RunOwned(t *testing.T, open func(t *testing.T) Instance) {
	t.Helper()
	var cases []testCase
	for _, group := range [][]testCase{
		takeCases(), positionCases(), payloadCases(), claimCases(), deleteCases(), expiredCases(), resetCases(),
		controlCases(), controlBatchCases(), seriesCases(), lineCases(), partCases(), generalCases(), ownedPauseCases(),
	} {
		cases = append(cases, group...)
	}
	runCases(t, open, cases)
}

// A testCase is one property of a store, named by what must be so.
type testCase struct {
	name string
	run  func(*subject)
}

func contractCases() []testCase {
	var cases []testCase
	for _, group := range [][]testCase{
		takeCases(), positionCases(), payloadCases(), claimCases(), deleteCases(), expiredCases(),
		resetCases(), lineageCases(), bindCases(), pauseCases(), controlCases(), controlBatchCases(), pastCases(),
		answerCases(), seriesCases(), lineCases(), partCases(), transferCases(), generalCases(),
	} {
		cases = append(cases, group...)
	}
	return cases
}

func runCases(t *testing.T, open func(t *testing.T) Instance, cases []testCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(newSubject(t, open(t)))
		})
	}
}
