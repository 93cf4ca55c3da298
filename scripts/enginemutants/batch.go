package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// batch is some mutants of one package and what was built for them: all in one build, or one mutant as it is.
type batch struct {
	where    string
	dir      string // of temporary files
	overlay  string
	numbers  map[*mutant]int // what chooses a woven mutant, from 1
	mu       sync.Mutex
	binaries map[string]string // by package
	without  *batch            // where what fails is run once more, without a mutant
	proving  sync.Mutex
	sound    map[string]error // by hunter: nil if it passes without a mutant
}

// newBatch weaves mutants of one package into one build. It returns those that need a build of their own, and an error
// for each that does not compile.
func newBatch(dir, where string, mutants []*mutant) (b *batch, alone []*mutant, broken map[*mutant]error, err error) {
	b = &batch{where: where, dir: dir, numbers: map[*mutant]int{}, binaries: map[string]string{}}
	b.without, b.sound = b, map[string]error{}
	broken = map[*mutant]error{}
	for i, m := range mutants {
		b.numbers[m] = i + 1
	}
	for {
		edited := map[string]string{}
		weavers := map[string]*weaver{}
		for _, m := range mutants {
			if b.numbers[m] == 0 {
				continue
			}
			w := weavers[m.file]
			if w == nil {
				source, err := os.ReadFile(m.file)
				if err != nil {
					return nil, nil, nil, err
				}
				if w, err = newWeaver(m.file, string(source)); err != nil {
					return nil, nil, nil, err
				}
				weavers[m.file] = w
			}
			switch err := w.add(m, b.numbers[m]); {
			case errors.Is(err, errAlone):
				alone = append(alone, m)
				delete(b.numbers, m)
			case err != nil:
				broken[m] = err
				delete(b.numbers, m)
			}
			edited[filepath.Join(where, "mutant_at_work.go")] = fmt.Sprintf(atWork, w.file.Name.Name)
		}
		for file, w := range weavers {
			edited[file] = w.text()
		}
		if err := b.lay(edited); err != nil {
			return nil, nil, nil, err
		}
		refused, err := b.refused(mutants)
		if err != nil || len(refused) == 0 {
			return b, alone, broken, err
		}
		for m, reason := range refused {
			broken[m] = reason
			delete(b.numbers, m)
		}
	}
}

// single returns a batch of a mutant that could not be woven into this one.
func (b *batch) single(dir string, m *mutant) (*batch, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	edited, err := m.apply(string(source))
	if err != nil {
		return nil, err
	}
	alone := &batch{where: b.where, dir: dir, binaries: map[string]string{}, without: b}
	return alone, alone.lay(map[string]string{m.file: edited})
}

// lay writes edited files and the description of where they are laid.
func (b *batch) lay(edited map[string]string) error {
	replaced := map[string]string{}
	for file, text := range edited {
		original, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		replaced[original] = filepath.Join(b.dir, filepath.Base(file))
		if err := os.WriteFile(replaced[original], []byte(text), 0o600); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	b.overlay = filepath.Join(b.dir, "overlay.json")
	return os.WriteFile(b.overlay, text, 0o600)
}

var place = regexp.MustCompile(`mutant(\d+)\.go:\d+`)

// refused returns the woven mutants that the compiler does not take.
func (b *batch) refused(mutants []*mutant) (map[*mutant]error, error) {
	build := []string{"build", "-gcflags=-e", "-overlay", b.overlay, "-o", os.DevNull, "./" + b.where}
	output, failed, err := command(time.Hour, ".", "", "go", build...)
	if err != nil || !failed {
		return nil, err
	}
	refused := map[*mutant]error{}
	for line := range strings.Lines(output) {
		if found := place.FindStringSubmatch(line); found != nil {
			number, _ := strconv.Atoi(found[1])
			refused[mutants[number-1]] = errors.New("it does not compile: " + strings.TrimSpace(line))
		}
	}
	if len(refused) == 0 {
		return nil, errors.New("the woven mutants do not compile:\n" + output)
	}
	return refused, nil
}

// binary returns the tests of a package, or the worlds of this command, built with the mutants of the batch.
func (b *batch) binary(of string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name := b.binaries[of]; name != "" {
		return name, nil
	}
	name := filepath.Join(b.dir, strings.ReplaceAll(of, "/", "_")+".exe")
	build := []string{"test", "-c", "-ldflags", "-s -w", "-overlay", b.overlay, "-o", name, "./" + of}
	if of == worldsPackage {
		build = slices.Delete(build, 0, 2)
		build = slices.Insert(build, 0, "build")
	}
	output, failed, err := command(time.Hour, ".", "", "go", build...)
	if err != nil {
		return "", err
	}
	if failed {
		return "", errors.New("it does not compile:\n" + output)
	}
	b.binaries[of] = name
	return name, nil
}

// hunt returns what catches a mutant of the batch; nothing if it survives.
func (b *batch) hunt(m *mutant, hunters []hunter, every bool) (string, error) {
	var by []string
	for _, try := range hunters {
		found, err := b.try(try, b.numbers[m])
		if err == nil && found != "" {
			err = b.without.passes(try)
		}
		if err != nil {
			return "", err
		}
		if found != "" {
			by = append(by, try.name+" "+found)
			if !every {
				break
			}
		}
	}
	return strings.Join(by, "; "), nil
}

// try returns what a hunter says that fails with the mutant of a number; nothing if it passes.
func (b *batch) try(h hunter, number int) (string, error) {
	binary, err := b.binary(h.of)
	if err != nil {
		return "", err
	}
	dir := h.of
	if dir == worldsPackage {
		dir = "." // where the scenarios are looked for
	}
	output, failed, err := command(patience, dir, strconv.Itoa(number), binary, h.args...)
	if err != nil || !failed {
		return "", err
	}
	return cmp.Or(why(output), "fails"), nil
}

// passes returns an error unless a hunter passes without a mutant: what fails then says nothing of one. It is asked for
// when something has been caught, so that a run of few mutants does not begin with all that could catch them.
func (b *batch) passes(h hunter) error {
	b.proving.Lock()
	defer b.proving.Unlock()
	key := fmt.Sprint(h)
	if _, known := b.sound[key]; !known {
		said, err := b.try(h, 0)
		if err == nil && said != "" {
			err = fmt.Errorf("%s, without any mutant: %s %s", b.where, h.name, said)
		}
		b.sound[key] = err
	}
	return b.sound[key]
}

// patience is how long a hunter may take; a mutant that makes it take longer is caught by that.
const patience = 10 * time.Minute

// hurry is how long tests go on when one of them has failed. Those that run beside it have often nothing to do but to
// wait for what the mutant does not let happen.
const hurry = time.Second

// output is what a command writes. The first failed test in it is told of.
type output struct {
	text   bytes.Buffer
	failed func()
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.text.Write(p)
	if o.failed != nil && bytes.Contains(o.text.Bytes(), []byte("--- FAIL: ")) {
		o.failed()
		o.failed = nil
	}
	return n, err
}

// command runs a command in a directory, with a mutant at work, and reports whether it has failed.
func command(limit time.Duration, dir, number, name string, args ...string) (said string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	out := &output{}
	enough := false // both are of the goroutine that copies the output, until Run returns
	out.failed = func() { enough = true; time.AfterFunc(hurry, cancel) }
	c.Stdout, c.Stderr = out, out
	c.Dir = dir
	c.Env = append(os.Environ(), "MUTANT_AT_WORK="+number)
	if number != "" { // tests that are ended leave their files behind, and these go with the binary
		c.Env = append(c.Env, "TMPDIR="+filepath.Dir(name))
	}
	c.WaitDelay = hurry // for processes that a test has started, and that hold the output open
	err = c.Run()
	if enough {
		return out.text.String(), true, nil
	}
	if ctx.Err() != nil {
		return "TIMED OUT", true, nil
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return out.text.String(), true, nil
	}
	return out.text.String(), false, err
}
