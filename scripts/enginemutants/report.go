package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// options say which mutants are run, and how.
type options struct {
	table    string // a file in place of mutants.txt
	names    string // separated by commas; all if it is empty
	log      string // a file that results are added to; what it names already is not run again
	share    string // "2/8": the second of eight parts
	seeds    int
	every    bool
	parallel int // how many mutants are hunted at once
}

// choose returns the mutants that are to be run.
func (o *options) choose(mutants []*mutant) ([]*mutant, error) {
	part, of := 1, 1
	if o.share != "" {
		if _, err := fmt.Sscanf(o.share, "%d/%d", &part, &of); err != nil || part < 1 || part > of {
			return nil, fmt.Errorf("-share %s: want a part such as 2/8", o.share)
		}
	}
	done := map[string]bool{}
	if o.log != "" {
		text, err := os.ReadFile(o.log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			name, _, _ := strings.Cut(line, " ")
			done[name] = true
		}
	}
	var chosen []*mutant
	for i, m := range mutants {
		if i%of == part-1 && !done[m.name] &&
			(o.names == "" || slices.Contains(strings.Split(o.names, ","), m.name)) {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// report is where the results go.
type report struct {
	options

	mu        sync.Mutex
	survivors int
	log       *os.File // nil for none
}

// run hunts the chosen mutants, by the packages and the hunters that they have in common.
func (r *report) run(chosen []*mutant) error {
	if r.options.log != "" {
		var err error
		if r.log, err = os.OpenFile(r.options.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		defer r.log.Close() //nolint:errcheck // each line was written by then
	}
	for len(chosen) > 0 {
		first := chosen[0]
		var group, rest []*mutant
		for _, m := range chosen {
			if filepath.Dir(m.file) == filepath.Dir(first.file) && m.moves() == first.moves() {
				group = append(group, m)
			} else {
				rest = append(rest, m)
			}
		}
		if err := r.group(group); err != nil {
			return err
		}
		chosen = rest
	}
	return nil
}

// group hunts mutants that have their hunters in common.
func (r *report) group(group []*mutant) error {
	hunters, err := group[0].hunters(r.seeds)
	if err != nil {
		for _, m := range group {
			r.say(m, "", err, 0)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "enginemutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of a directory for temporary files
	b, alone, broken, err := newBatch(dir, filepath.Dir(group[0].file), group)
	if err != nil {
		return err
	}
	for m, err := range broken {
		r.say(m, "", err, 0)
	}
	var workers errgroup.Group
	workers.SetLimit(r.parallel)
	for _, m := range group {
		if b.numbers[m] > 0 || slices.Contains(alone, m) {
			workers.Go(func() error {
				r.one(b, m, hunters)
				return nil
			})
		}
	}
	return workers.Wait()
}

// one hunts a mutant, in a build of its own if it is not of the batch.
func (r *report) one(b *batch, m *mutant, hunters []hunter) {
	started := time.Now()
	if !r.every {
		hunters = slices.Concat(m.named(hunters), hunters)
	}
	if b.numbers[m] == 0 {
		dir, err := os.MkdirTemp(b.dir, "alone")
		if err == nil {
			b, err = b.single(dir, m)
		}
		if err != nil {
			r.say(m, "", err, 0)
			return
		}
		defer os.RemoveAll(dir) //nolint:errcheck // of a directory for temporary files
	}
	by, err := b.hunt(m, hunters, r.every)
	r.say(m, by, err, time.Since(started))
}

// say reports a result.
func (r *report) say(m *mutant, by string, err error, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		by = err.Error()
		r.survivors++
	} else if by == "" && m.equivalent == "" {
		r.survivors++
	}
	if by == "" && m.equivalent != "" {
		by = "survives: " + m.equivalent
	}
	line := fmt.Sprintf("%-26s %-60s %4.0f s  %s\n", m.name, cmp.Or(by, "SURVIVES"), took.Seconds(), m.about)
	fmt.Print(line)
	if r.log != nil {
		if _, err := r.log.WriteString(line); err != nil {
			fmt.Fprintln(os.Stderr, "enginemutants:", err)
		}
	}
}
