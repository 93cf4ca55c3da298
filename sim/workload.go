package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
)

// Submission is one record that the application publishes on an input topic.
type Submission struct {
	// Number names the submission in the whole run, from 1. It travels along as the header "n", by which the
	// world knows the record again.
	Number int

	// At is when it is submitted, from the start of the run, or, if After is a submission, from the moment at
	// which that one appears on its output topic.
	At    time.Duration
	After int

	ID    string
	In    time.Duration // from the submission to the deadline; negative if it has lapsed
	Route int
	Key   string // "" for none

	// Target is the number of the topic on which it is to come out, other than the output topic of its route; 0 for
	// that.
	Target int

	// Delayed says that it asks for a delay of In, and not for a deadline: from the timestamp of its record on.
	Delayed bool

	// NotAfter is how long after the submission it may still be published; 0 forever.
	NotAfter time.Duration

	// Action is what it asks for: "" to be scheduled, or one of the values of the header chronosAction. In is then for
	// what has a deadline.
	Action string

	// Past is how an operator gives it to the store, past Kafka: PastAny to whichever message has the id, PastSame to
	// the one that he has looked at before, PastLane to all that he has seen on the lane. "" for a record.
	Past string

	// Every has it recur, Times times in all; 0 for once.
	Every time.Duration
	Times int

	// Flaw is what is wrong with it: "", Poison, or one of the malformations.
	Flaw string
}

// Poison marks a submission that its output topic rejects, because it is too large.
const Poison = "poison"

// Unstorable marks a submission that the store can never keep.
const Unstorable = "unstorable"

// malformations returns the ways in which a record can be no valid submission.
func malformations() []string {
	return []string{
		"no-id", "empty-id", "two-ids", "long-id", "binary-id", "nul-id",
		"no-deadline", "two-deadlines", "bad-deadline", "bare-deadline",
	}
}

// misinstructions returns the ways in which an instruction can be no valid one, although it is told of.
func misinstructions() []string {
	return []string{"unknown-action", "two-actions", "two-deadlines", "other-topic", "bad-confirm"}
}

// flaws returns all that can be wrong with a submission.
func flaws() []string {
	return slices.Concat([]string{Poison, Unstorable}, malformations(), misinstructions())
}

// actions returns what a submission can ask for.
func actions() []string {
	var words []string
	for _, a := range []node.Action{node.Schedule, node.Replace, node.Reschedule, node.Cancel, node.FireNow} {
		words = append(words, a.String())
	}
	return words
}

// stores reports whether the submission brings a message that may be stored.
func (s Submission) stores() bool {
	return s.Action == "" || s.Action == node.Schedule.String() || s.Action == node.Replace.String()
}

// String returns the submission as a line of a plan.
func (s Submission) String() string {
	var line strings.Builder
	if s.After > 0 {
		fmt.Fprintf(&line, "after %d %v", s.After, s.At)
	} else {
		fmt.Fprintf(&line, "at %v", s.At)
	}
	when := "in"
	if s.Delayed {
		when = "delay"
	}
	fmt.Fprintf(&line, " submit %d id %s %s %v", s.Number, s.ID, when, s.In)
	if s.NotAfter > 0 {
		fmt.Fprintf(&line, " not-after %v", s.NotAfter)
	}
	if s.Route != 0 {
		fmt.Fprintf(&line, " route %d", s.Route)
	}
	if s.Key != "" {
		fmt.Fprintf(&line, " key %s", s.Key)
	}
	if s.Target > 0 {
		fmt.Fprintf(&line, " target %d", s.Target)
	}
	if s.Action != "" {
		fmt.Fprintf(&line, " action %s", s.Action)
	}
	if s.Past != "" {
		fmt.Fprintf(&line, " past %s", s.Past)
	}
	if s.Every > 0 {
		fmt.Fprintf(&line, " every %v times %d", s.Every, s.Times)
	}
	if s.Flaw != "" {
		fmt.Fprintf(&line, " flaw %s", s.Flaw)
	}
	return line.String()
}

// ParseSubmission reads a line of a plan.
func ParseSubmission(line string) (Submission, error) { //nolint:funlen // a case for each word
	var s Submission
	words := strings.Fields(line)
	if len(words)%2 == 1 && len(words) > 3 && words[0] == "after" {
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 {
			return s, fmt.Errorf("%q is no submission", words[1])
		}
		s.After = n
		words = append([]string{"at"}, words[2:]...)
	}
	if len(words)%2 == 1 || len(words) < 8 {
		return s, fmt.Errorf("%q is not of the form at 1s submit 7 id x in 2s", line)
	}
	for ; len(words) > 0; words = words[2:] {
		var err error
		switch word := words[1]; words[0] {
		case "at":
			s.At, err = time.ParseDuration(word)
		case "submit":
			s.Number, err = strconv.Atoi(word)
		case "id":
			s.ID = word
		case "in":
			s.In, err = time.ParseDuration(word)
		case "delay":
			s.Delayed = true
			s.In, err = time.ParseDuration(word)
		case "not-after":
			s.NotAfter, err = time.ParseDuration(word)
		case "route":
			s.Route, err = strconv.Atoi(word)
		case "key":
			s.Key = word
		case "action":
			s.Action = word
			if !slices.Contains(actions(), word) {
				err = fmt.Errorf("there is no action %q", word)
			}
		case "target":
			s.Target, err = strconv.Atoi(word)
		case "past":
			s.Past = word
			if word != PastAny && word != PastSame && word != PastLane && word != PastAsked {
				err = fmt.Errorf("there is no way %q past Kafka", word)
			}
		case "every":
			s.Every, err = time.ParseDuration(word)
		case "times":
			s.Times, err = strconv.Atoi(word)
		case "flaw":
			s.Flaw = word
			if !slices.Contains(flaws(), word) {
				err = fmt.Errorf("there is no flaw %q", word)
			}
		default:
			err = fmt.Errorf("%q is not known", words[0])
		}
		if err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	if s.Past != "" && (s.Action == "" || s.stores() && s.Past != PastAsked || s.Flaw != "" || s.Delayed) {
		return s, fmt.Errorf("%q: past Kafka there are actions only, and only who asks brings a message, with a "+
			"deadline", line)
	}
	if s.Every < 0 || s.Every > 0 && (s.Times < 1 || s.Times >= maxOccurrences) {
		return s, fmt.Errorf("%q: a series comes from 1 to %d times", line, maxOccurrences-1)
	}
	if s.Delayed && s.In < 0 || s.NotAfter < 0 || s.NotAfter > 0 && (s.NotAfter < s.In || s.Every > 0) {
		return s, fmt.Errorf("%q: a delay is not negative, and only what is no series may end, not before its deadline",
			line)
	}
	if s.Target < 0 || s.Target > callbacks {
		return s, fmt.Errorf("%q: there are %d targets", line, callbacks)
	}
	if s.Number < 1 || s.ID == "" || s.Route < 0 {
		return s, fmt.Errorf("%q: the number must be from 1, the route from 0, and the id not empty", line)
	}
	return s, nil
}

// Workload draws the submissions of a run.
func Workload(o Options) []Submission {
	submissions := make([]Submission, o.Messages)
	var bursts []time.Duration
	random := stream(o.Seed, forWorkload, 0, 0)
	for range o.Bursts {
		bursts = append(bursts, between(random, 0, o.Faulty))
	}
	for i := range submissions {
		submissions[i] = drawSubmission(o, i, bursts, submissions)
	}
	return submissions
}

// drawSubmission draws the submission with that index. Each has a stream of its own, so that the others do not change
// when one is taken away.
func drawSubmission(o Options, i int, bursts []time.Duration, before []Submission) Submission {
	r := stream(o.Seed, forWorkload, i+1, 0)
	s := Submission{Number: i + 1, ID: "m" + strconv.Itoa(i+1), Route: r.IntN(o.Routes)}
	if len(bursts) > 0 {
		s.At = bursts[r.IntN(len(bursts))]
	} else {
		s.At = between(r, 0, o.Faulty)
	}
	s.At = s.At.Round(time.Millisecond)
	if oneIn(r, 3) {
		s.Key = "k" + strconv.Itoa(r.IntN(8))
	}
	s.In = drawDelay(r, o)
	if alike := stream(o.Seed, forWorkload, i+1, 2); s.In < 0 && alike.IntN(100) < o.Alike {
		s.Key = "k0"
	}
	switch chance := r.IntN(100); {
	case chance < o.Reuse && i > 0:
		// An id once more: while it waits, right after it fires, or at some time.
		other := before[r.IntN(i)]
		s.ID, s.Route, s.Target = other.ID, other.Route, other.Target
		switch r.IntN(3) {
		case 0:
			s.At = min(other.At+between(r, 0, max(other.In, time.Second)), o.Faulty).Round(time.Millisecond)
		case 1:
			s.After, s.At = other.Number, between(r, 0, 20*time.Millisecond).Round(10*time.Microsecond)
		}
	case chance < o.Reuse+o.Malformed:
		s.Flaw = pick(r, malformations()...)
	case chance < o.Reuse+o.Malformed+o.Poison:
		s.Flaw = Poison
	case chance < o.Reuse+o.Malformed+o.Poison+o.Refused:
		s.Flaw = Unstorable
	case chance < o.Reuse+o.Malformed+o.Poison+o.Refused+o.Instructed && i > 0:
		instruct(r, &s, &before[r.IntN(i)], o)
		if wrong := stream(o.Seed, forWorkload, i+1, 1); wrong.IntN(100) < o.Misinstructed {
			s.Flaw = pick(wrong, misinstructions()...)
		}
	}
	if past := stream(o.Seed, forOperators, i+1, 0); o.Operated > 0 && past.IntN(100) < o.Operated && i > 0 {
		return operated(past, &s, &before[past.IntN(i)], o)
	}
	if s.Flaw == "" && s.stores() && o.Recurring > 0 && r.IntN(100) < o.Recurring {
		s.Every, s.Times = time.Duration(1+r.IntN(3))*time.Second, 1+r.IntN(5)
	}
	limit(r, &s, o)
	if s.Target == 0 && r.IntN(100) < o.Aimed {
		s.Target = 1 + r.IntN(targets)
	}
	if c := stream(o.Seed, forReceivers, -i-1, 0); o.Callbacks > 0 && fresh(&s) && c.IntN(100) < o.Callbacks {
		s.Target = callbacks
		if o.Ordered > 0 && !oneIn(c, 3) {
			s.Key = "k" + strconv.Itoa(c.IntN(o.Ordered))
		}
	}
	return s
}

// fresh reports whether a submission brings an id of its own.
func fresh(s *Submission) bool { return s.ID == "m"+strconv.Itoa(s.Number) }

// limit has a submission ask for a delay in place of a deadline, or end at some time: at its deadline, when it is about
// to come out, or a while later.
func limit(r *rand.Rand, s *Submission, o Options) {
	deadline := s.stores() || s.Action == node.Reschedule.String()
	s.Delayed = s.Flaw == "" && deadline && s.In >= 0 && r.IntN(100) < o.Delayed
	if s.stores() && s.Every == 0 && (s.Flaw == "" || s.Flaw == Poison) && r.IntN(100) < o.Ending {
		last := pick(r, 0, between(r, 0, 100*time.Millisecond), between(r, 0, 5*time.Second))
		s.NotAfter = max(s.In, time.Microsecond) + last.Round(time.Microsecond)
	}
}

// longestSeries is how long the occurrences of a series come, at most, after the first.
const longestSeries = 4 * 3 * time.Second

func drawDelay(r *rand.Rand, o Options) time.Duration {
	if r.IntN(100) < o.Lapsed {
		return -o.Overdue - between(r, 0, 10*time.Second).Round(time.Microsecond)
	}
	switch r.IntN(4) {
	case 0:
		return between(r, 0, 2*(o.Lookahead+o.PollInterval)).Round(time.Microsecond)
	case 1:
		return between(r, 0, min(o.Horizon, 3*time.Second)).Round(time.Microsecond)
	default:
		return between(r, 0, o.Horizon).Round(time.Millisecond)
	}
}

// application submits, and sees what appears on the output topics.
type application struct {
	world   *world
	host    *host                 // number 0: its calls are counted for the faults
	sent    map[int]*sent         // by the number of the submission
	waiting map[int][]*Submission // by the submission whose appearance they wait for
	left    int                   // submissions to come at an instant of their own

	clients *clients // of queues

	operators []*life // of all times
	busy      int     // operators that have not ended
}

// sent is what the application knows of a submission that it has made.
type sent struct {
	submission *Submission
	seen       bool // on an output or dead-letter topic
	fires      int  // records on its output topic
}

func newApplication(w *world, submissions []Submission) *application {
	a := &application{
		world: w, host: w.hosts[0], sent: map[int]*sent{}, waiting: map[int][]*Submission{},
	}
	for i := range submissions {
		s := &submissions[i]
		if s.After > 0 {
			a.waiting[s.After] = append(a.waiting[s.After], s)
			continue
		}
		a.left++
		w.at(int64(s.At), a, uint64(i))
	}
	a.clients = newClients(a)
	return a
}

// do makes the submission with that index.
func (a *application) do(index uint64) {
	a.left--
	a.submit(&a.world.messages[index])
}

// submit appends a submission to its input topic, which acknowledges it.
func (a *application) submit(s *Submission) {
	w := a.world
	if s.Past != "" {
		a.operate(s)
		return
	}
	if w.now < w.broker.away {
		w.at(w.broker.away, action(func() { a.submit(s) }), 0)
		return
	}
	times := 1
	for _, f := range a.strikes() {
		if f.Kind == Duplicate {
			times = 2
		} else {
			w.disturb(f, a.host)
		}
	}
	timestamp := w.instant().Truncate(time.Millisecond) // which is what Kafka keeps
	deadline := w.instant().Add(s.In).Truncate(time.Microsecond)
	if s.Delayed {
		deadline = timestamp.Add(s.In)
	}
	last := time.Time{}
	if s.NotAfter > 0 {
		last = w.instant().Add(s.NotAfter).Truncate(time.Microsecond)
	}
	r := payload(&w.options, s, deadline, last)
	r.Timestamp = timestamp
	t := w.broker.input[s.Route%len(w.broker.input)]
	if a.sent[s.Number] == nil {
		a.sent[s.Number] = &sent{submission: s}
	}
	for range times {
		p := t.choose(r.Key)
		appended := p.append(r)
		w.digest.number(uint64(s.Number))
		w.stats.Submitted++
		w.recorder.submitted(s, &appended, p, deadline, last)
		if random := stream(w.options.Seed, forControl, s.Number, 0); random.IntN(100) < w.options.Control {
			p.append(node.Record{Control: true}) // the end of a transaction
		}
		if w.observe != nil {
			w.step(&Step{
				Kind: StepSubmit, Messages: []int{s.Number},
				Text: fmt.Sprintf("submits %s to %v, offset %d, in %v", s.ID, p, appended.Offset, s.In),
			})
		}
	}
}

// strikes returns the faults that are due at this submission.
func (a *application) strikes() []Fault {
	w, h := a.world, a.host
	h.calls[opSubmit]++
	if w.plan == nil {
		f, struck := w.drawFault(h, opSubmit)
		if !struck {
			return nil
		}
		w.struck(f, nil)
		return []Fault{f}
	}
	var faults []Fault
	for len(h.plan[opSubmit]) > 0 && h.plan[opSubmit][0].Nth <= h.calls[opSubmit] {
		f := h.plan[opSubmit][0]
		h.plan[opSubmit] = h.plan[opSubmit][1:]
		if f.Nth == h.calls[opSubmit] && !w.faultsOver {
			w.struck(f, nil)
			faults = append(faults, f)
		}
	}
	return faults
}

// published is called when a record appears on an output or dead-letter topic.
func (a *application) published(from appending, r node.Record) {
	w := a.world
	n := numberIn(r.Headers)
	w.digest.number(uint64(n)<<32 | uint64(r.Offset))
	w.stats.Appended++
	w.recorder.published(from, &r)
	a.count(n, &r)
	if w.observe != nil {
		w.step(&Step{
			Kind: StepAppend, Node: from.life.host.number, Life: from.life.number, Messages: []int{n},
			Text: fmt.Sprintf("appends to %s/%d, offset %d", r.Topic, r.Partition, r.Offset),
		})
	}
	s := a.sent[n]
	if s == nil || s.seen {
		return
	}
	s.seen = true
	for _, s := range a.waiting[n] {
		if !w.faultsOver {
			w.after(s.At, func() { a.submit(s) })
		}
	}
	delete(a.waiting, n)
}

// count counts what must occur sometimes.
func (a *application) count(n int, r *node.Record) {
	w := a.world
	s := a.sent[n]
	if s == nil || r.Topic != w.recorder.output(s.submission) {
		return
	}
	s.fires++
	if s.fires > 1 && s.submission.Every == 0 {
		w.count("fired-twice")
		return
	}
	if s.submission.After > 0 {
		w.count("reused-id-fired")
	}
}

// numberIn returns the number of the submission that the headers belong to.
func numberIn(headers []node.Header) int {
	for _, h := range headers {
		if h.Name == "n" {
			n, err := strconv.Atoi(string(h.Value))
			if err == nil {
				return n
			}
		}
	}
	return 0
}
