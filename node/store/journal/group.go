package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/node/ledger"
)

// job is what somebody wants to change in a partition.
type job struct {
	// compute adds it to a change. It may be called again, with another change, if the first one was not committed.
	compute func(*change) error

	done bool // under mu
	err  error
}

// do changes a partition. Whoever comes while a transaction is on its way waits for it, and is in the next one together
// with all others who wait: so what is taken in and what is fired at one time is one transaction, and no transaction
// waits for more than one other.
//
//	A's transaction is on its way         B and C wait
//	A is answered                         B makes a transaction of what it wants and of what C wants
//	                                      C finds that it is done
//
// Their changes are computed one after the other, each on what the one before leaves.
func (s *shard) do(ctx context.Context, compute func(*change) error) error {
	j := &job{compute: compute}
	s.joining.Lock()
	s.jobs = append(s.jobs, j)
	s.joining.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.done {
		return j.err
	}
	s.rest()
	s.joining.Lock()
	jobs := s.jobs
	s.jobs = nil
	s.joining.Unlock()
	s.began, s.moved = time.Now(), 0
	s.work(context.WithoutCancel(ctx), jobs)
	s.ended = time.Now()
	return j.err
}

// await waits for the end of the transaction that is on its way, if there is one: then the local copy has it.
func (s *shard) await() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// crowd is how many entries a transaction has that is not followed by a rest.
const crowd = 200

// rest waits for as long as the last transaction took, and until spacing after its beginning at most. A transaction
// costs the brokers as much as hundreds of messages do: where there are many, a moment in which more come together
// spares them most of it. On brokers that are busy transactions take long, and are few; on others nobody has to wait
// for that. Where there are few messages, nobody waits at all; nor behind a transaction that had many, whose cost they
// have shared.
func (s *shard) rest() {
	if wait := time.Until(restsUntil(s.began, s.ended, s.moved, s.spacing)); wait > 0 {
		<-time.After(wait)
	}
}

// restsUntil returns until when a partition rests whose last transaction began and ended then, and moved that many
// entries.
func restsUntil(began, ended time.Time, moved int, spacing time.Duration) time.Time {
	if moved >= crowd {
		return ended
	}
	until := ended.Add(ended.Sub(began))
	if latest := began.Add(spacing); latest.Before(until) {
		return latest
	}
	return until
}

// work makes one transaction of jobs. If one of them may be to blame that it is aborted, each gets one of its own. If
// it is aborted because no broker takes it, none does: each try may last as long as a transaction may, while all wait.
func (s *shard) work(ctx context.Context, jobs []*job) {
	divide, err := s.transact(ctx, jobs)
	lost, _ := s.isLost()
	for _, j := range jobs {
		if j.err = err; len(jobs) > 1 && divide && !lost {
			_, j.err = s.transact(ctx, []*job{j})
			lost, _ = s.isLost()
		}
		j.done = true
	}
}

// transact makes a transaction of jobs, and reports whether one of them may be to blame that it is aborted.
func (s *shard) transact(ctx context.Context, jobs []*job) (blame bool, err error) {
	if lost, _ := s.isLost(); lost {
		return false, fmt.Errorf("partition %s: %w: %w", ledger.Name(s.number), ledger.ErrFenced, ledger.ErrAborted)
	}
	c := s.change()
	if err := c.reading(func() error {
		for _, j := range jobs {
			if err := j.compute(c); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return true, fmt.Errorf("%w: %w", ledger.ErrAborted, err)
	}
	return blames(c.commit(ctx))
}

// blames returns an error, and whether it says that something of a transaction is to blame for it.
func blames(err error) (bool, error) {
	var refusal *ledger.RefusedError
	return errors.As(err, &refusal) || errors.Is(err, ledger.ErrRefused), err
}
