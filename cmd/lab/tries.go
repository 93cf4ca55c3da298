package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"chronos/chaos"
)

// mostSeeds is how many seeds a mutant has to survive to be taken for not caught.
const mostSeeds = 3

// try is one run of a scenario, of a mutant where there is one.
type try struct {
	scenario *chaos.Scenario
	seed     uint64
	mutant   *chaos.Mutant

	result *chaos.Result
	err    error
}

// name is that of the folder for its logs, and of its lines on the screen.
func (t *try) name() string {
	if t.mutant != nil {
		return t.mutant.Name
	}
	return fmt.Sprintf("%s-%d", t.scenario.Name, t.seed)
}

// verdict says what has caught a mutant.
func (t *try) verdict() string {
	broken := t.mutant.Caught(t.result)
	switch {
	case broken == "" && t.mutant.Passes:
		return "breaks nothing, as it should"
	case broken == "":
		return "NOT CAUGHT in " + t.scenario.Name
	}
	caught := fmt.Sprintf("caught in %s, seed %d, by %s", t.scenario.Name, t.seed, broken)
	if t.mutant.Passes {
		return "SHOULD BREAK NOTHING, and is " + caught
	}
	return caught
}

// tryAll runs tries until there is no next one, so many at once.
func (c *chaosCommand) tryAll(ctx context.Context, next func() *try, config chaos.Config, say *screen) {
	running := atOnce(max(c.AtOnce, 1))
	for t := next(); t != nil && ctx.Err() == nil; t = next() {
		running.Go(func() error {
			c.play(ctx, t, config, say)
			return nil
		})
	}
	_ = running.Wait() // no try returns an error: each keeps its own
}

// play runs one try, a mutant with more seeds until it is caught.
func (c *chaosCommand) play(ctx context.Context, t *try, config chaos.Config, say *screen) {
	lines := &lines{screen: say, prefix: t.name()}
	_, _ = fmt.Fprintln(lines, t.scenario.About)
	for {
		config.Dir = filepath.Join(c.Dir, t.name())
		config.Seed, config.Say, config.Mutant = t.seed, lines, ""
		if t.mutant != nil {
			config.Mutant = t.mutant.Name
		}
		if err := errors.Join(os.RemoveAll(config.Dir), os.MkdirAll(config.Dir, 0o755)); err != nil {
			t.err = fmt.Errorf("make a folder for the logs: %w", err)
			return
		}
		t.result, t.err = chaos.Run(ctx, t.scenario, config)
		again := t.mutant != nil && t.err == nil && t.mutant.Caught(t.result) == "" && !t.mutant.Passes
		if !again || t.seed >= c.Seed+mostSeeds-1 {
			break
		}
		t.seed++
	}
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(lines, "interrupted")
	case errors.Is(t.err, chaos.ErrImpossible):
		_, _ = fmt.Fprintf(lines, "not run: %v\n", t.err)
	case t.err != nil:
		_, _ = fmt.Fprintf(lines, "could not run: %v\n", t.err)
	case t.mutant != nil:
		_, _ = fmt.Fprintln(lines, t.verdict())
	default:
		c.tell(t.result, lines)
	}
}

// sortOut sorts out what has come of the tries: results, in their order, and what could not be run here at all. The
// error is about those that should have run and could not.
func sortOut(tries []*try) (results []*chaos.Result, absent []string, err error) {
	for _, t := range tries {
		switch {
		case errors.Is(t.err, chaos.ErrImpossible):
			absent = append(absent, t.scenario.Name)
		case t.err != nil:
			err = fmt.Errorf("scenario %s, seed %d: %w", t.scenario.Name, t.seed, t.err)
		case t.result != nil:
			results = append(results, t.result)
		}
	}
	return results, absent, err
}

// screen is a terminal that several write to, a line at a time.
type screen struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

// lines puts a name before every line. What is not a whole line yet waits for its rest.
type lines struct {
	screen *screen
	prefix string

	mu   sync.Mutex
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.rest = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(l.screen, "%-22s %s\n", l.prefix, line); err != nil {
			return len(p), err
		}
	}
}
