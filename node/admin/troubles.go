package admin

import (
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"chronos/node"
)

// A node that can't publish on a lane tries again every few seconds, as long as something is due there; a message that
// its topic rejects is tried again within five minutes. What is not met again for longer than that is over: the lane
// works for another node, which has published what this one could not.
const (
	laneQuiet     = 30 * time.Second
	rejectedQuiet = 6 * time.Minute
)

// maxTroubles bounds how many messages are remembered, and how many lanes whose trouble is over. Of a sink that is away
// there can be very many messages, and all have one reason, which is that of the lane.
const maxTroubles = 1000

// Troubles remembers what the node could not publish lately, and why. It is in memory, and so of this node alone, and
// from its start on: a column in the store would have to be written by each release of an outage, of which there may be
// ten thousands a second, at the very time when the store has enough to do. The last error of each lane is in the
// nodes' heartbeats, for all to see.
type Troubles struct {
	mu       sync.Mutex
	messages map[uuid.UUID]*Trouble
	order    []uuid.UUID // the earliest first; some may be gone
	lanes    map[string]*Trouble
	until    map[string]time.Time // when the trouble of a lane is over if it is not met again

	cause func(lane string, err error) string
	now   func() time.Time
}

// NewTroubles returns an empty one. cause says in words why something failed on a lane, "" where the error says it; nil
// for always "".
func NewTroubles(cause func(lane string, err error) string) *Troubles {
	if cause == nil {
		cause = func(string, error) string { return "" }
	}
	return &Troubles{
		messages: map[uuid.UUID]*Trouble{}, lanes: map[string]*Trouble{}, until: map[string]time.Time{}, cause: cause,
		now: time.Now,
	}
}

// Observe takes an event of the engine.
func (t *Troubles) Observe(event node.Event) {
	switch e := event.(type) {
	case node.Unpublished:
		t.failed(e)
	case node.Fired:
		t.came(e.Messages)
	case node.DeadLettered:
		t.came(e.Messages)
	case node.GaveUp:
		t.came([]node.Message{e.Message})
	}
}

func (t *Troubles) failed(e node.Unpublished) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(e.Messages) == 0 {
		return
	}
	now, text, cause := t.now().UTC(), oneLine(e.Err.Error()), oneLine(t.cause(e.Messages[0].Lane, e.Err))
	quiet := laneQuiet
	if node.KindOf(e.Err) == node.RecordRejected {
		quiet = rejectedQuiet
	}
	again := func(before *Trouble) *Trouble {
		tries := 1
		if before != nil {
			tries += before.Tries
		}
		return &Trouble{Error: text, Cause: cause, At: now, Tries: tries, Permanent: e.Permanent}
	}
	for i := range e.Messages {
		m := &e.Messages[i]
		if i == 0 || m.Lane != e.Messages[i-1].Lane {
			t.lanes[m.Lane], t.until[m.Lane] = again(t.lanes[m.Lane]), now.Add(quiet)
		}
		before := t.messages[m.Incarnation]
		if before == nil {
			t.order = append(t.order, m.Incarnation)
		}
		t.messages[m.Incarnation] = again(before)
	}
	if len(t.lanes) > maxTroubles { // which an application can make up, where a target ends with a *
		maps.DeleteFunc(t.lanes, func(lane string, _ *Trouble) bool { return !now.Before(t.until[lane]) })
		maps.DeleteFunc(t.until, func(lane string, _ time.Time) bool { return t.lanes[lane] == nil })
	}
	for len(t.order) > maxTroubles {
		delete(t.messages, t.order[0])
		t.order = t.order[1:]
	}
}

// came forgets what has come through.
func (t *Troubles) came(messages []node.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lanes) == 0 {
		return
	}
	for i := range messages {
		delete(t.messages, messages[i].Incarnation)
		delete(t.lanes, messages[i].Lane)
		delete(t.until, messages[i].Lane)
	}
}

// of returns the trouble with a message; nil for none.
func (t *Troubles) of(incarnation uuid.UUID) *Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if trouble := t.messages[incarnation]; trouble != nil {
		c := *trouble
		return &c
	}
	return nil
}

// lane returns the trouble with a lane; nil for none, or one that is over.
func (t *Troubles) lane(name string) *Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if trouble := t.lanes[name]; trouble != nil && t.now().Before(t.until[name]) {
		c := *trouble
		return &c
	}
	return nil
}

// Lanes returns the troubles with all lanes that are not over.
func (t *Troubles) Lanes() map[string]Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]Trouble, len(t.lanes))
	for name, trouble := range t.lanes {
		if t.now().Before(t.until[name]) {
			all[name] = *trouble
		}
	}
	return all
}

// oneLine returns what an error says as one line of text, of bounded length. Part of it may be what a server has sent:
// a zero byte in it would have Postgres refuse the heartbeat of the node, which would look as if it had died.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError
	}), " ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return text
}
