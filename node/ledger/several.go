package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"chronos/node"
)

// Several is one Ledger of several: the partitions of all of them, told apart by their numbers. There is nothing
// between them: each partition has the writer, the transactions and the log that it has by itself, and a transaction is
// still of one partition. So whoever works with partitions by number works with those of several topics as well
// (docs/adr/0032).
//
// Which ledger stands where decides which number a partition has, and nothing else. A number is not in any ledger; who
// keeps something under one looks at the identity of the topic (Place.TopicID), and finds another one when the ledgers
// have changed places.
type Several []Ledger

var _ Ledger = Several(nil)

// stride is how many partitions a ledger of Several has at most: more than a cluster of Kafka has. So there are 2,047
// ledgers at most; the partitions of any beyond have no number, and nobody owns them.
const stride = 1 << 20

// Number returns the number that a partition has in Several, by the index of its ledger. Those of the first ledger are
// as they are.
func Number(at int, number int32) int32 { return int32(at)*stride + number }

// Split returns the index of the ledger that a partition of Several is in, and the number that it has there.
func Split(number int32) (at int, there int32) { return int(number / stride), number % stride }

// Name returns what people call a partition of Several: its number, and which of the inputs it is of if that is not the
// first one, from 1.
func Name(number int32) string {
	at, there := Split(number)
	if at == 0 {
		return fmt.Sprint(there)
	}
	return fmt.Sprintf("%d of input %d", there, at+1)
}

// errNoLedger says that there is no ledger for a partition: nobody who was told its number has made it up.
var errNoLedger = errors.New("no journal has that partition")

// of returns the ledger of a partition, and the number that it has there.
func (s Several) of(number int32) (Ledger, int32, error) {
	at, there := Split(number)
	if number < 0 || at >= len(s) {
		return nil, 0, fmt.Errorf("partition %s: %w", Name(number), errNoLedger)
	}
	return s[at], there, nil
}

// Own implements Ledger.
func (s Several) Own(ctx context.Context, number int32, fence Entry) (Writer, error) {
	one, there, err := s.of(number)
	if err != nil {
		return nil, err
	}
	return one.Own(ctx, there, fence)
}

// Read implements Ledger.
func (s Several) Read(ctx context.Context, from Place, until int64, each func(Committed) error) error {
	one, there, err := s.of(from.Number)
	if err != nil {
		return err
	}
	from.Number = there
	return one.Read(ctx, from, until, each)
}

// Begin implements Ledger.
func (s Several) Begin(ctx context.Context, number int32) (Place, error) {
	one, there, err := s.of(number)
	if err != nil {
		return Place{}, err
	}
	place, err := one.Begin(ctx, there)
	place.Number = number
	return place, err
}

// End implements Ledger.
func (s Several) End(ctx context.Context, number int32) (Place, error) {
	one, there, err := s.of(number)
	if err != nil {
		return Place{}, err
	}
	place, err := one.End(ctx, there)
	place.Number = number
	return place, err
}

// Extents implements Ledger. All ledgers are asked at once. If one can't tell, or says that it has no partition, that
// is an error, beside what the others say: who asks all owners for something must not take those of one topic for all
// there are, and who has partitions of one topic has nothing to do with the other one.
//
//	first topic     4 partitions
//	second topic    none, says a broker that has just started
//	pause           asked of 4 owners, answered: the lane is paused. Those of the second topic fire on
func (s Several) Extents(ctx context.Context) ([]node.Extent, error) {
	found, errs := make([][]node.Extent, len(s)), make([]error, len(s))
	var all sync.WaitGroup
	for i, one := range s {
		all.Go(func() {
			if found[i], errs[i] = one.Extents(ctx); errs[i] == nil && len(found[i]) == 0 {
				errs[i] = fmt.Errorf("the journal of input %d has no partition that Kafka knows of just now", i+1)
			}
		})
	}
	all.Wait()
	var extents []node.Extent
	for i := range found {
		for _, e := range found[i] {
			e.Number = Number(i, e.Number)
			extents = append(extents, e)
		}
	}
	return extents, errors.Join(errs...)
}
