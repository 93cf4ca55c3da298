package solver

import (
	"context"
	"errors"
	"sync"
	"time"

	"chronos/sim/proof"
)

// Result is what a solver says of an obligation: proved, if it is Unsatisfiable.
type Result struct {
	proof.Obligation

	Solver string
	Answer Answer
	Took   time.Duration
}

// Proved reports whether the solver has found that the claim follows.
func (r *Result) Proved() bool { return r.Answer == Unsatisfiable }

// Prove asks each solver about all obligations, in sessions of one step each of which so many run at a time. It shows
// each result as it comes, one at a time, until show returns false.
func Prove(
	ctx context.Context, s *proof.System, obligations []proof.Obligation, solvers []Solver, workers int,
	show func(Result) bool,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type job struct {
		solver Solver
		step   []proof.Obligation
	}
	jobs := make(chan job)
	var (
		mu    sync.Mutex
		done  bool
		wrong error
		group sync.WaitGroup
	)
	tell := func(r Result, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case done || ctx.Err() != nil:
		case err != nil:
			done, wrong = true, err
		case !show(r):
			done = true
		}
		if done {
			stop()
		}
	}
	declarations := s.Declarations()
	for range workers {
		group.Go(func() {
			for j := range jobs {
				j.solver.step(ctx, declarations, j.step, tell)
			}
		})
	}
	for _, step := range steps(obligations) {
		for _, solver := range solvers {
			select {
			case jobs <- job{solver, step}:
			case <-ctx.Done():
			}
		}
	}
	close(jobs)
	group.Wait()
	if !done && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return wrong
}

// steps groups obligations by their steps.
func steps(all []proof.Obligation) (grouped [][]proof.Obligation) {
	for at, from := 0, 0; at < len(all); at++ {
		if at+1 == len(all) || all[at+1].Step != all[at].Step {
			grouped = append(grouped, all[from:at+1])
			from = at + 1
		}
	}
	return grouped
}

// step asks about the obligations of one step.
func (s Solver) step(
	ctx context.Context, declarations string, obligations []proof.Obligation, tell func(Result, error),
) {
	if ctx.Err() != nil {
		return
	}
	session, err := s.Start(ctx)
	if err != nil {
		tell(Result{}, err)
		return
	}
	err = session.Tell(declarations + obligations[0].Premises())
	for i := 0; err == nil && i < len(obligations); i++ {
		began := time.Now()
		var answer Answer
		if answer, err = session.Try(obligations[i].Denial()); err == nil {
			tell(Result{obligations[i], s.Name, answer, time.Since(began)}, nil)
		}
	}
	if err = errors.Join(err, session.Close()); err != nil && ctx.Err() == nil {
		tell(Result{}, err)
	}
}
