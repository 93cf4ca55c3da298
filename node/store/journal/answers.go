package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// answer is what becomes of a record that is marked with a request (node.HeaderRequest). It is an entry of the
// partition that the record belongs to, in the transaction that takes the record in: whoever reads what was committed
// finds it exactly where the effect is, and the owner finds it when the request is repeated (docs/adr/0027).
type answer struct {
	Told node.Told `json:"told"`

	// Refused says why the record is none that can be done; empty where it can. Such an answer is told once, and not
	// given again: to refuse has no effect.
	Refused string `json:"refused,omitempty"`

	// Asks are the records that this entry answers (node.Request.Ask), all of one transaction.
	Asks []uuid.UUID `json:"asks"`

	// Expires is when the owner forgets the answer, by its clock.
	Expires time.Time `json:"expires"`
}

const (
	// sweep is how many answers that have expired are removed for each one that is stored: more than one, so that they
	// get fewer when requests get fewer.
	sweep = 4

	// refusalKept is how long an entry is kept that nobody asks for again: longer than anybody waits for it.
	refusalKept = time.Minute
)

// encode writes an answer: less than a kilobyte, and what a refusal says.
func (a *answer) encode() ([]byte, error) {
	return writeJSON(anAnswer, a)
}

func readAnswer(value []byte) (*answer, error) { return readJSON[answer](anAnswer, value) }

// anAnswer is what errors call the entry of an answer.
const anAnswer = "the answer to a request"

// answered does what an item asks for, unless its request was answered before: then it does nothing, and what was told
// is told again, in an entry behind the record, for whoever waits now.
func (c *change) answered(item *node.Item) (node.Verdict, *node.Told, error) {
	request := item.Request
	if request == nil {
		v, err := c.decide(item)
		return v, nil, err
	}
	v, next, err := c.answerTo(item, request, c.now())
	if err != nil {
		return v, nil, err
	}
	next.Asks = []uuid.UUID{request.Ask}
	if former := c.answers[request.ID]; former != nil {
		next.Asks = append(slices.Clone(former.Asks), request.Ask) // they are in the same entry
	}
	c.answers[request.ID] = next
	return v, &next.Told, nil
}

// answerTo does what an item asks for, and returns the answer to its request. One that was answered before is told the
// same, also where its record is refused by now: it may have been carried out when it was none of that.
func (c *change) answerTo(item *node.Item, request *node.Request, now time.Time) (node.Verdict, *answer, error) {
	if err := c.sweepAnswers(now); err != nil {
		return node.Verdict{}, nil, err
	}
	before, err := c.answer(request.ID)
	if err != nil {
		return node.Verdict{}, nil, err
	}
	if before != nil && before.Refused == "" && now.Before(before.Expires) {
		again := *before
		again.Told.Again = true
		return node.Verdict{Outcome: node.Skipped}, &again, nil
	}
	v, err := c.decide(item)
	if err != nil {
		return v, nil, err
	}
	next := &answer{Told: item.Tell(v, c.lineage()), Expires: now.Add(request.Keep).UTC()}
	if request.Refused != "" {
		next.Refused, next.Expires = request.Refused, now.Add(refusalKept).UTC()
	}
	return v, next, nil
}

// answer returns the answer to a request, as the change leaves it; nil for none.
func (c *change) answer(id uuid.UUID) (*answer, error) {
	if a, changed := c.answers[id]; changed {
		return a, nil
	}
	return c.storedAnswer(c.db, id)
}

// storedAnswer returns the answer to a request that the local copy has, or a batch on it; nil for none.
func (s *shard) storedAnswer(from pebble.Reader, id uuid.UUID) (*answer, error) {
	a, _, err := get(s.db, from, s.key(answerKind, id[:]), readAnswer)
	return a, err
}

// sweepAnswers has the change remove a few of the answers that have expired, those that have expired first. What
// expires before the first one that is left the change removes, or has stored anew.
func (c *change) sweepAnswers(now time.Time) error {
	prefix, found, ended := c.key(expiryKind), 0, true
	err := c.scan(prefix, append(c.key(expiryKind), c.swept...), func(key, _ []byte) (bool, error) {
		rest := key[len(prefix):]
		if len(rest) != 24 {
			return false, errForeign
		}
		c.swept = mark(rest)
		if ended = binary.BigEndian.Uint64(rest) <= order(now) && found < sweep; !ended {
			return false, nil
		}
		id := uuid.UUID(rest[8:])
		if _, changed := c.answers[id]; !changed {
			c.answers[id] = nil
			found++
		}
		return true, nil
	})
	if ended && err == nil {
		c.swept = markEnd
	}
	return err
}

// expiryOf returns the place of the answer to a request in the order in which answers expire.
func expiryOf(id uuid.UUID, a *answer) mark {
	return mark(binary.BigEndian.AppendUint64(nil, order(a.Expires))) + mark(id[:])
}

// prepareAnswers adds to entries and to a batch for the local copy what becomes of answers.
func (c *change) prepareAnswers(entries []ledger.Entry, batch *pebble.Batch) ([]ledger.Entry, error) {
	for _, id := range slices.SortedFunc(maps.Keys(c.answers), func(a, b uuid.UUID) int {
		return bytes.Compare(a[:], b[:])
	}) {
		after := c.answers[id]
		before, err := c.storedAnswer(c.db, id)
		if err != nil {
			return nil, err
		}
		if before == nil && after == nil {
			continue
		}
		entry := ledger.Entry{Key: append([]byte{answerKey}, id[:]...)}
		if after != nil {
			if entry.Value, err = after.encode(); err != nil {
				return nil, err
			}
		}
		entries = append(entries, entry)
		if err := c.putAnswer(batch, id, before, after, entry.Value); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// answer adds the entry of an answer to the batch; after is nil if there is none any more.
func (r *replaying) answer(e ledger.Entry, after *answer) error {
	id := uuid.UUID(e.Key[1:])
	before, known := r.answers[id]
	if !known {
		var err error
		if before, err = r.storedAnswer(r.db, id); err != nil {
			return err
		}
	}
	r.answers[id] = after
	return r.putAnswer(r.batch, id, before, after, e.Value)
}

// putAnswer has a batch replace what the local copy has of an answer. Value is what after is encoded as.
func (s *shard) putAnswer(batch *pebble.Batch, id uuid.UUID, before, after *answer, value []byte) error {
	expiry := func(a *answer) []byte { return append(s.key(expiryKind), expiryOf(id, a)...) }
	var errs []error
	if before != nil {
		errs = append(errs, batch.Delete(expiry(before), nil), batch.Delete(s.key(answerKind, id[:]), nil))
	}
	if after != nil {
		errs = append(errs, batch.Set(expiry(after), nil, nil), batch.Set(s.key(answerKind, id[:]), value, nil))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write the local copy: %w", err)
	}
	return nil
}
