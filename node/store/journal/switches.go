package journal

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// A wish is what somebody wants to be paused or resumed in a partition. It is an entry that anybody appends, who need
// not own the partition; the owner does it, and says so in a switch, which is what counts (docs/adr/0029).
type wish struct {
	// Name is drawn for each wish. One that is sent twice is done once.
	Name uuid.UUID `json:"name"`

	// Lane is the lane, or node.Intake.
	Lane string `json:"lane"`

	// Pause is what is to be in force; nil to resume. What is paused already keeps its pause.
	Pause *paused `json:"pause,omitempty"`

	// at is the offset of the entry.
	at int64
}

// paused is what is known of a pause. Since is by the clock of the node that was asked, so that all partitions have the
// same.
type paused struct {
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`

	// Minded is since when an owner has minded it, by its clock; zero where that is not known.
	Minded time.Time `json:"minded,omitzero"`
}

// switched is what the owner of a partition has committed of a lane, or of the intake: whether it is paused there, and
// what was wished last.
type switched struct {
	// Pause is in force from the entry on; nil for none.
	Pause *paused `json:"pause,omitempty"`

	// At is the offset of the last wish that was done. One that stands before it, and was missed, is not done any more:
	//
	//	pause: missed, since its owner ends        resume: done        the copy is made anew: pause
	At int64 `json:"at,omitempty"`

	// Done are the wishes that were done last, at most keptWishes, the last one at the end: who waits for one of them
	// has its answer.
	Done []done `json:"done"`
}

// done is a wish that was done.
type done struct {
	Name uuid.UUID `json:"name"`

	// Was says whether there was a pause before.
	Was bool `json:"was,omitempty"`
}

// keptWishes is how many wishes are remembered for each lane: one that is sent again after another one is not done
// again.
const keptWishes = 16

// aPause is what errors call the entries of wishes and of switches.
const aPause = "a pause"

// readWish reads the wish that stands at an offset.
func readWish(value []byte, at int64) (*wish, error) {
	w, err := readJSON[wish](aPause, value)
	if err == nil {
		w.at = at
	}
	return w, err
}

// entry returns the entry of a wish.
func (w *wish) entry() (ledger.Entry, error) {
	value, err := writeJSON(aPause, w)
	return ledger.Entry{Key: append([]byte{wishKey}, w.Name[:]...), Value: value}, err
}

// isPaused reports whether the owner minds a pause of a lane, or of the intake. It does so before the pause is
// committed: see obey. The caller has quick.
func (s *shard) isPaused(lane string) bool {
	is := s.switches[lane]
	return s.closing[lane] > 0 || is != nil && is.Pause != nil
}

// outlived reports whether a message is on a paused lane, and what is to be published of it was claimed before this
// node came to own the partition. Whoever claimed it may have been the owner no more, and another one have paused the
// lane:
//
//	A is stopped        B owns, and commits the pause        A goes on, claims x, owns anew, and fires x
func (s *shard) outlived(next *node.Next) bool {
	s.quick.Lock()
	defer s.quick.Unlock()
	claim, held := s.claims[node.MessageID{ID: next.Of.ID, Lane: next.Of.Lane}]
	return s.isPaused(next.Of.Lane) && (!held || claim.Ref != next.Of)
}

// intakePaused reports whether the intake of any partition is paused that this node owns: then the node takes nothing
// in, since that is what its engine can do.
func (s *Store) intakePaused() (is bool) {
	_ = s.look(func(owned *shard) error {
		is = is || owned.isPaused(node.Intake)
		return nil
	})
	return is
}

// state is what the store says of itself now.
func (s *Store) state() node.State {
	is := state()
	is.IntakePaused = s.intakePaused()
	return is
}

// obey adds to a change what a wish wants, unless it was done before.
func (c *change) obey(w *wish) {
	before := c.switches[w.Lane]
	if before == nil {
		before = c.shard.switches[w.Lane]
	}
	next := &switched{At: -1} // a wish may be the first entry of all
	if before != nil {
		*next = *before
	}
	again := slices.ContainsFunc(next.Done, func(d done) bool { return d.Name == w.Name })
	if !again && w.at > next.At {
		next.At = w.at
		one := done{Name: w.Name, Was: next.Pause != nil}
		next.Done = append(slices.Clone(next.Done[max(0, len(next.Done)+1-keptWishes):]), one)
		if w.Pause == nil || !one.Was {
			next.Pause = w.Pause
			if w.Pause != nil {
				minded := *w.Pause
				minded.Minded = c.now().UTC()
				next.Pause = &minded
			}
		}
	}
	c.pauses(w.Lane, next)
	c.wishes = append(c.wishes, w.Name)
}

// pauses has a change leave that of a lane.
func (c *change) pauses(lane string, next *switched) {
	if c.switches == nil {
		c.switches = map[string]*switched{}
	}
	c.switches[lane] = next
}

// prepareSwitches adds to entries and to a batch for the local copy what becomes of switches, and of the wishes that
// are done.
func (c *change) prepareSwitches(entries []ledger.Entry, batch *pebble.Batch) ([]ledger.Entry, error) {
	for _, lane := range slices.Sorted(maps.Keys(c.switches)) {
		value, err := writeJSON(aPause, c.switches[lane])
		if err != nil {
			return nil, err
		}
		entries = append(entries, ledger.Entry{Key: append([]byte{switchKey}, lane...), Value: value})
		if err := batch.Set(c.key(switchKind, []byte(lane)), value, nil); err != nil {
			return nil, fmt.Errorf("write the local copy: %w", err)
		}
	}
	for _, name := range c.wishes {
		entries = append(entries, ledger.Entry{Key: append([]byte{wishKey}, name[:]...)})
		if err := batch.Delete(c.key(wishKind, name[:]), nil); err != nil {
			return nil, fmt.Errorf("write the local copy: %w", err)
		}
	}
	return entries, nil
}

// replaySwitch applies the entry of a switch or of a wish to a batch. A wish that nobody has done yet stays in the
// local copy with its place, for the next owner.
func (s *shard) replaySwitch(batch *pebble.Batch, e *ledger.Committed) error {
	kind := byte(switchKind)
	value := e.Value
	if e.Key[0] == wishKey {
		kind, value = wishKind, append(binary.BigEndian.AppendUint64(nil, uint64(e.Offset)), e.Value...)
	}
	if e.Value == nil {
		return batch.Delete(s.key(kind, e.Key[1:]), nil) //nolint:wrapcheck // apply says what it was
	}
	return batch.Set(s.key(kind, e.Key[1:]), value, nil) //nolint:wrapcheck // apply says what it was
}

// loadSwitches reads from the local copy what is paused.
func (s *shard) loadSwitches() error {
	s.switches = map[string]*switched{}
	prefix := s.key(switchKind)
	return s.scan(prefix, prefix, func(key, value []byte) (bool, error) {
		is, err := readJSON[switched](aPause, value)
		s.switches[string(key[len(prefix):])] = is
		return err == nil, err
	})
}

// pending returns the wishes that the local copy has and nobody has done, in the order in which they came.
func (s *shard) pending() ([]*wish, error) {
	var wishes []*wish
	prefix := s.key(wishKind)
	err := s.scan(prefix, prefix, func(_, value []byte) (bool, error) {
		if len(value) < 8 {
			return false, errForeign
		}
		w, err := readWish(value[8:], int64(binary.BigEndian.Uint64(value)))
		wishes = append(wishes, w)
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(wishes, func(a, b *wish) int { return cmp.Compare(a.at, b.at) })
	return wishes, nil
}

// pausesOf returns what is paused in any of some partitions, in the order of lanes. Where they differ, because not all
// owners have heard of it yet, the first pause is shown.
func pausesOf(shards []*shard) []node.Pause {
	all := map[string]node.Pause{}
	for _, s := range shards {
		for lane, is := range s.switches {
			if is.Pause == nil {
				continue
			}
			one := is.Pause.of(lane)
			if other, some := all[lane]; !some || comparePauses(one, other) < 0 {
				all[lane] = one
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b node.Pause) int { return cmp.Compare(a.Lane, b.Lane) })
}

// of returns the pause of a lane.
func (p *paused) of(lane string) node.Pause {
	return node.Pause{Lane: lane, Since: p.Since.UTC(), By: p.By, Why: p.Why}
}

// comparePauses has the pauses of a lane in an order in which the first one counts.
func comparePauses(a, b node.Pause) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.By, b.By), cmp.Compare(a.Why, b.Why))
}
