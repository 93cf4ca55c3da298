// Package solver asks z3 and cvc5, programs of their own, whether a formula can be true.
package solver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Solver is a program that decides whether there is a world in which a script of SMT-LIB 2.6 is true.
type Solver struct {
	Name string
	args []string
}

// Z3 and CVC5 give each question a limit of time, after which they answer that they do not know.
func Z3(limit time.Duration) Solver {
	return Solver{"z3", []string{"-in", "-smt2", fmt.Sprintf("-t:%d", limit.Milliseconds())}}
}

// CVC5 looks for finite worlds. A formula without cycles of quantifiers is true in one, if it is true in any.
func CVC5(limit time.Duration) Solver {
	return Solver{"cvc5", []string{
		"--lang=smt2", "--incremental", "--finite-model-find", fmt.Sprintf("--tlimit-per=%d", limit.Milliseconds()),
	}}
}

// Answer is what a solver says.
type Answer string

// The answers. Unsatisfiable: there is no such world, so that what was denied is proved.
const (
	Satisfiable   Answer = "sat"
	Unsatisfiable Answer = "unsat"
	Unknown       Answer = "unknown"
)

// Missing returns an error that says what to do, unless all solvers are installed.
func Missing(all ...Solver) error {
	for _, s := range all {
		if _, err := exec.LookPath(s.Name); err != nil {
			return fmt.Errorf("%s is not installed, which checks the proof: run scripts/setup solvers", s.Name)
		}
	}
	return nil
}

// Session is one run of a solver. It is used by one goroutine.
type Session struct {
	solver  Solver
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts a solver, which ends with ctx at the latest. Close ends it.
func (s Solver) Start(ctx context.Context) (*Session, error) {
	if err := Missing(s); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, s.Name, s.args...)
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	session := &Session{s, command, in, bufio.NewReader(out)}
	if err := session.Tell("(set-logic ALL)\n"); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

// Tell adds to the script.
func (s *Session) Tell(script string) error {
	if _, err := io.WriteString(s.in, script); err != nil {
		return fmt.Errorf("write to %s: %w", s.solver.Name, err)
	}
	return nil
}

// Ask asks whether all that was told can be true together.
func (s *Session) Ask() (Answer, error) {
	line, err := s.Read("(check-sat)\n")
	if err != nil {
		return "", err
	}
	switch answer := Answer(line); answer {
	case Satisfiable, Unsatisfiable, Unknown:
		return answer, nil
	default:
		return "", fmt.Errorf("%s says: %s", s.solver.Name, line)
	}
}

// Try asks with something told that is forgotten afterwards.
func (s *Session) Try(script string) (Answer, error) {
	if err := s.Tell("(push 1)\n" + script); err != nil {
		return "", err
	}
	answer, err := s.Ask()
	return answer, errors.Join(err, s.Tell("(pop 1)\n"))
}

// Read tells something that is answered by one line, and returns the line.
func (s *Session) Read(command string) (string, error) {
	if err := s.Tell(command); err != nil {
		return "", err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s has ended without an answer: %w", s.solver.Name, err)
	}
	return strings.TrimSpace(line), nil
}

// Close ends the solver.
func (s *Session) Close() error {
	_ = s.in.Close()
	_, _ = io.Copy(io.Discard, s.out)
	if err := s.command.Wait(); err != nil && s.command.ProcessState.ExitCode() < 0 {
		return fmt.Errorf("end %s: %w", s.solver.Name, err)
	}
	return nil
}
