package check

import "time"

const (
	// probeSize is how many messages of a part that does not answer a node claims at once, and probeEvery the longest
	// time between two such claims.
	probeSize  = 10
	probeEvery = 6 * time.Second

	// probesAtFirst is how many probes a node makes within the first 5 s beside one in each 4 s: after 1, 2 and 4 s,
	// give or take a fifth, and one when it has found the part in the store.
	probesAtFirst = 4
	probeLeast    = 4 * time.Second
)

// part names a part of a lane, on which messages are parked.
type part struct{ topic, name string }

// parking is what a node has parked on a part since it last published something from there.
type parking struct {
	since time.Duration
	seen  map[UUID]bool // incarnations
	again int           // how often it has parked one of them anew
}

// park notes where a row waits after a reset.
func (s *state) park(r *row, e *Event) {
	r.part, r.placed = e.Part, true
	if e.Part != "" && !r.counted {
		r.counted = true
		s.lane(r.key.topic).parked++
	}
	p := s.processes[e.Node]
	if e.Part == "" || p == nil {
		return
	}
	at := part{r.key.topic, e.Part}
	if p.parkings == nil {
		p.parkings = map[part]*parking{}
	}
	k := p.parkings[at]
	if k == nil {
		k = &parking{since: e.At, seen: map[UUID]bool{}}
		p.parkings[at] = k
	}
	if k.seen[r.id] {
		k.again++
	}
	k.seen[r.id] = true
}

// unpark notes that a message comes out: if it was parked, what happened on its part before says nothing any more.
func (s *state) unpark(e *Event) {
	sub := s.submissions[e.Message]
	if sub == nil {
		return
	}
	r := s.rows[sub.key]
	if r == nil || r.part == "" {
		return
	}
	for _, name := range s.processNames() {
		delete(s.processes[name].parkings, part{r.key.topic, r.part})
	}
}

// l23 is the invariant L23, parked once.
func l23(s *state, e *Event) finding {
	p, r := s.processes[e.Node], s.rowOf(e)
	if e.Part == "" || p == nil || r == nil {
		return holds()
	}
	k := p.parkings[part{e.Topic, e.Part}]
	if k == nil {
		return holds()
	}
	probes := probesAtFirst + int((e.At-k.since)/probeLeast)
	if k.again > probes*probeSize {
		return brokenBy(r.submission, "in %v a node has tried what was parked on %s/%s %d times anew, with %d probes",
			e.At-k.since, e.Topic, e.Part, k.again, probes)
	}
	return holds()
}

// l24 is the invariant L24, back. It is about the messages that were parked when their partition answered again.
func l24(s *state, e *Event) finding {
	l, to := s.silence(e)
	if l == nil || to == nil || len(to) == 0 {
		return holds()
	}
	sub, c := s.submissions[e.Message], &s.config
	r := s.rows[sub.key]
	if r == nil || r.part == "" || isCallback(e.Topic) || c.pace(e.Topic) > 0 || s.window(e.Topic) != nil {
		return holds()
	}
	answers := l.answers[e.Partition]
	if s.healed >= 0 {
		answers = min(answers, s.healed)
	}
	since := max(answers, r.deadline, r.made)
	if late := e.At - since; late > c.Back(l.parked) {
		return brokenBy(sub, "its partition answers since %v, and it comes out %v after that, more than %v",
			answers, late, c.Back(l.parked))
	}
	return holds()
}

// Back bounds the time after which a parked message comes out, once its partition answers and it is due (L24), where
// that many messages of its lane were parked at the same time: a probe, which may follow one that was too early, and
// then claims as on any lane.
func (c *Config) Back(parked int) time.Duration {
	return probeEvery + c.PublishTimeout + c.Shared(parked)
}
