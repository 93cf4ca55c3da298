package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/store/inspect"
)

// Poster appends records to the journal, in a partition that somebody else may own. It is safe for concurrent use.
type Poster interface {
	// Send puts a record on a partition, and returns when Kafka has acknowledged it. After an error nobody knows
	// whether the record is there.
	Send(ctx context.Context, number int32, record node.Record) error
}

// Switchboard pauses and resumes for all nodes: it appends a wish to each partition of the journal, and returns when
// the owner of each has committed what became of it (docs/adr/0029). NewSwitchboard makes one; Close ends it.
type Switchboard struct {
	log    ledger.Ledger
	poster Poster
	asker  *Asker // hears what owners have committed
	limits AskerLimits

	// turns has one for each partition that is asked just now: there may be more of them than an Asker lets ask.
	turns chan struct{}
}

// askAgain is the time after which a wish is sent once more that was not answered. An owner can lose one: its copy may
// have gone on behind it, by a transaction of its own, when the owner ended before it had looked.
const askAgain = 2 * time.Second

// NewSwitchboard returns one on a journal.
func NewSwitchboard(log ledger.Ledger, poster Poster, limits AskerLimits) *Switchboard {
	asker := NewAsker(log, nil, nil, limits)
	return &Switchboard{
		log: log, poster: poster, asker: asker, limits: asker.limits, turns: make(chan struct{}, asker.limits.Most),
	}
}

// Close ends it. Whoever still waits does not hear any more.
func (b *Switchboard) Close() { b.asker.Close() }

// SwitchBy has the store pause and resume by a switchboard. It is called before the store is used; without it nothing
// can be paused.
func (s *Store) SwitchBy(board *Switchboard) { s.board = board }

// errNoPauses is what is said to whoever wants to pause something in a store without a switchboard.
var errNoPauses error = &inspect.UnableError{
	Sentence: "this copy of the journal can pause nothing: ask a node that runs",
}

// errNoPartitions is what is said where a broker lists no partition of the journal: one that has just started does not
// know the topic yet. Then nobody was asked, and that is no answer of all.
var errNoPartitions = errors.New("the journal has no partition that Kafka knows of just now: ask again")

// Pause implements node.Switches. It returns when all owners mind it; a *inspect.PartlyError says that some have not
// answered.
func (s *Store) Pause(ctx context.Context, pause node.Pause) (node.Pause, error) {
	now := s.wall().UTC().Truncate(time.Microsecond)
	states, err := s.wish(ctx, wish{
		Lane: pause.Lane, Pause: &paused{Since: now, By: pause.By, Why: pause.Why},
	})
	var first node.Pause
	for _, is := range states {
		if is.Pause == nil {
			continue // somebody has resumed it meanwhile
		}
		if one := is.Pause.of(pause.Lane); first.Since.IsZero() || comparePauses(one, first) < 0 {
			first = one
		}
	}
	if err == nil && first.Since.IsZero() {
		first = node.Pause{Lane: pause.Lane, Since: now, By: pause.By, Why: pause.Why}
	}
	return first, err
}

// Resume implements node.Switches, as Pause does.
func (s *Store) Resume(ctx context.Context, lane string) (bool, error) {
	states, err := s.wish(ctx, wish{Lane: lane})
	was := false
	for _, is := range states {
		was = was || is.was
	}
	return was, err
}

// Pauses implements node.Switches, for the partitions that this node owns.
func (s *Store) Pauses(ctx context.Context) ([]node.Pause, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	working := s.working()
	for _, owned := range working {
		owned.quick.Lock()
		defer owned.quick.Unlock()
	}
	return pausesOf(working), nil
}

// granted is what an owner has committed of a wish.
type granted struct {
	*switched

	was bool // whether there was a pause before
}

// wish has the owner of each partition do what is wished, and returns what each has committed.
func (s *Store) wish(ctx context.Context, w wish) ([]granted, error) {
	if s.board == nil {
		return nil, errNoPauses
	}
	extents, err := s.board.log.Extents(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(extents) == 0:
		return nil, errNoPartitions
	}
	if w.Name, err = uuid.NewRandom(); err != nil {
		return nil, fmt.Errorf("draw the name of a wish: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.board.limits.Wait, ErrUnheard)
	defer cancel()
	states, errs := make([]granted, len(extents)), make([]error, len(extents))
	err = atOnce(len(extents), func(i int) error {
		states[i], errs[i] = s.board.ask(ctx, extents[i].Number, w, s.call)
		return errs[i]
	})
	if err == nil {
		for _, owned := range s.working() {
			owned.passed()
		}
		return states, nil
	}
	answered := 0
	for _, one := range errs {
		if one == nil {
			answered++
		}
	}
	return nil, partly(&w, answered, len(extents), errors.Join(errs...))
}

// passed waits until the transaction is over that is under way, and has taken effect here. What was read in the journal
// may be of one whose owner, this process, has not had the answer yet:
//
//	owner   commits that the intake is resumed
//	asker   reads it, and answers
//	owner   takes in, for whoever was answered: refused, since the intake is paused here
//	        is answered
func (s *shard) passed() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// partly returns the error of a wish that not all owners have answered.
func partly(w *wish, answered, all int, cause error) error {
	what, word := "the lane "+w.Lane, "paused"
	if w.Lane == node.Intake {
		what = "the intake"
	}
	if w.Pause == nil {
		word = "resumed"
	}
	return &inspect.PartlyError{Cause: cause, Sentence: fmt.Sprintf("%s is %s on %d of %d partitions of the journal. "+
		"The nodes that own the others have not answered in time, and do it when they hear of it: ask again",
		what, word, answered, all)}
}

// ask sends a wish to a partition until its owner has answered, and tells the caller's own store of it, which may be
// that.
func (b *Switchboard) ask(ctx context.Context, number int32, w wish, sent func()) (granted, error) {
	entry, err := w.entry()
	if err != nil {
		return granted{}, err
	}
	select {
	case b.turns <- struct{}{}:
		defer func() { <-b.turns }()
	case <-ctx.Done():
		return granted{}, context.Cause(ctx)
	}
	hears := make(chan heard, 1)
	t, err := b.asker.join(ctx, number, w.Name, hears)
	if err != nil {
		return granted{}, err
	}
	defer b.asker.leave(t, w.Name)
	select {
	case <-t.ready:
	case h := <-hears: // it can't be read
		return granted{}, h.err
	case <-ctx.Done():
		return granted{}, context.Cause(ctx)
	}
	for {
		err := b.poster.Send(ctx, number, node.Record{Key: entry.Key, Value: entry.Value})
		sent()
		select {
		case h := <-hears:
			return h.granted, h.err
		case <-time.After(askAgain):
		case <-ctx.Done():
			return granted{}, errors.Join(err, context.Cause(ctx))
		}
	}
}

// tellSwitch tells those who wait for it of a switch, as tell does.
func (a *Asker) tellSwitch(t *tail, value []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(t.waiting) == 0 {
		return
	}
	is, err := readJSON[switched](aPause, value)
	if err != nil {
		return
	}
	for _, d := range is.Done {
		if hears := t.waiting[d.Name]; hears != nil {
			hears <- heard{granted: granted{is, d.Was}}
			delete(t.waiting, d.Name)
		}
	}
}
