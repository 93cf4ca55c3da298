package chaos

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/sim/check"
)

// For how long receivers do not do what is asked in the scenario of callbacks that are given up, from sinceUnwell on:
// for so long that what falls due there up to surelyGivenUp after that is given up before they are well again, also by
// a node that is killed meanwhile and another that takes over. A node that has started anew puts off what it can't
// send for as long as that is overdue, until it knows for itself who is unwell, which the last of them does after some
// ten seconds, or twelve on a busy machine:
//
//	 3.9 s  a message falls due, of which one node after the other knows nothing: it is put off at 3.9, 5.5, 7.3
//	12.0 s  and once more, by a node that was killed at 5 s: for 8.1 s, or a fifth more
//	21.7 s  all nodes know: it is given up
const (
	retriedFor    = 2 * time.Second
	sinceUnwell   = 2 * time.Second
	unwellFor     = 24 * time.Second
	surelyGivenUp = 4 * time.Second
)

// giveUpScenario is about callbacks to receivers that are unwell for longer than callbacks are tried.
func giveUpScenario() *Scenario {
	return &Scenario{
		Name: "callbacks-given-up",
		About: "Of four receivers of callbacks one answers 503, one cannot be reached and one hangs for longer than " +
			"callbacks are tried, while nodes are killed. What falls due there ends as a dead letter, not sooner.",
		Hosts: 4, Asks: 3, Rate: 100, RetryFor: retriedFor, Lasts: sinceUnwell + unwellFor + 2*time.Second,
		draw:    stayUnwell,
		demands: []demand{asGiven, givenUp},
	}
}

// What is wrong with the receivers, by their numbers; nothing with the first.
const (
	busyHost = 1 + iota
	awayHost
	hungHost
)

// stayUnwell has all receivers but the first be unwell for long, and kills two nodes meanwhile: soon, since a node that
// starts has to find out who is unwell before it gives anything up unsent.
func stayUnwell(n *nemesis) {
	n.feel(sinceUnwell, unwellFor, busyHost, moodBusy)
	n.trouble(sinceUnwell, unwellFor, "cut", "everybody", hostName(awayHost), []*link{n.host(awayHost).link})
	n.feel(sinceUnwell, unwellFor, hungHost, moodHangs)
	order := n.random.Perm(len(n.cluster.nodes))
	for i, at := range []time.Duration{3 * time.Second, 5 * time.Second} {
		n.killNode(at, n.between(time.Second, 5*time.Second/2), n.cluster.nodes[order[i]])
	}
}

// letter is what the dead letter of a callback says.
type letter struct {
	at             time.Duration // when it was appended, in whole milliseconds, rounded down
	reason, status string
	answer         string
}

// letterOf reads a record of the dead-letter topic.
func (h *history) letterOf(r *kgo.Record) letter {
	l := letter{at: r.Timestamp.Sub(h.since)}
	for _, field := range []struct {
		name string
		text *string
	}{{"chronosReason", &l.reason}, {"chronosStatus", &l.status}, {"chronosAnswer", &l.answer}} {
		for _, header := range r.Headers {
			if header.Key == field.name {
				*field.text = string(header.Value)
			}
		}
	}
	return l
}

// givenUp demands that what falls due at a receiver that is unwell ends as a dead letter, with what was answered; that
// none does before the time is over for which it is tried; and that nothing does that is for the receiver that is well.
//
// How soon a message is given up depends on the machine: what it has added to times is taken off the end of the time
// in which that is certain.
func givenUp(r *run, result *Result) string {
	since := r.nemesis.marks[hostName(busyHost)+" "+moodBusy]
	if since == 0 {
		return "no receiver has been unwell: that shows nothing"
	}
	r.submitter.mu.Lock()
	defer r.submitter.mu.Unlock()
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	when := submitted(r.events)
	ended, told := map[int]int{}, 0
	for _, s := range r.submitter.submitted {
		if s.invalid || s.message == nil {
			continue
		}
		due, letters, host := s.deadline.Sub(r.history.since), r.history.letters[s.number], s.message.host.number
		for _, l := range letters {
			if wrong := l.wrong(host, due+r.scenario.RetryFor); wrong != "" {
				return fmt.Sprintf("the dead letter of message %d, for %s: %s", s.number, hostName(host), wrong)
			}
			if l.status != "" {
				told++
			}
		}
		if len(letters) > 0 {
			ended[host]++
		}
		due = max(due, when[s.number])
		surely := due > since+time.Second && due < since+surelyGivenUp-result.Busy && host != 0 && !s.reused
		if surely && len(letters) == 0 {
			return fmt.Sprintf("message %d fell due %v after %s was unwell, and has no dead letter", s.number,
				due-since, hostName(host))
		}
	}
	r.say("callbacks that were given up, by their receivers: %v; %d letters tell the status", ended, told)
	for _, host := range []int{busyHost, awayHost, hungHost} {
		if ended[host] < 20 {
			return fmt.Sprintf("only %d callbacks to %s were given up: that shows nothing", ended[host], hostName(host))
		}
	}
	if told < 20 {
		return fmt.Sprintf("only %d dead letters tell the status of the answer: that shows nothing", told)
	}
	return ""
}

// wrong says what is wrong with a dead letter of a callback to a receiver, which may be given up from an instant on.
func (l *letter) wrong(host int, from time.Duration) string {
	const rounding = time.Millisecond
	status := strconv.Itoa(statusBusy)
	switch {
	case host == 0:
		return "that receiver has been well all the time"
	case l.reason != "callback_failed":
		return fmt.Sprintf("its reason is %q", l.reason)
	case l.at+rounding < from:
		return fmt.Sprintf("it is there %v before the time is over for which it is tried", from-l.at)
	case l.status != "" && (host != busyHost || l.status != status || l.answer != busyAnswer):
		return fmt.Sprintf("it tells of an answer %s %q that nobody has given", l.status, l.answer)
	}
	return ""
}

// submitted returns when messages were submitted.
func submitted(events []check.Event) map[int]time.Duration {
	when := map[int]time.Duration{}
	for i := range events {
		if events[i].Kind == check.Submit {
			when[events[i].Message] = events[i].At
		}
	}
	return when
}
