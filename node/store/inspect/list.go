package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/node"
)

// State is what can be asked of a message.
type State string

// The states that can be asked for.
const (
	Waiting State = "waiting" // claimed by nobody
	Parked  State = "parked"  // waits, since the output partition or the host where it belongs does not answer
	Claimed State = "claimed" // held by a node
	Overdue State = "overdue" // waits, and should have been claimed a second ago
	PutOff  State = "put-off" // waits, and could not be published before
	Stuck   State = "stuck"   // held by a node whose claim has expired
)

// States are all of them.
func States() []State { return []State{Waiting, Parked, Claimed, Overdue, PutOff, Stuck} }

// Query says which messages to list. Empty fields ask for nothing in particular.
type Query struct {
	State State
	Lanes []string

	// From and Until bound the deadline: from the first, up to, not including, the second.
	From, Until time.Time

	Key         []byte // nil for any
	Header      string // the name of a header that the message has
	HeaderValue []byte // and its value; nil for any

	// Excused reports whether nothing on a lane is overdue now, since its window keeps it closed; nil for no lane.
	Excused func(lane string) bool

	// Limit is the largest number of messages, and Cursor where to go on: Page.Next.
	Limit  int
	Cursor string

	// Slice is how many messages to read first, at most MaxSlice; 0 for a few. Those after it are more or fewer, by how
	// long that took. Whoever walks along a whole lane need not begin each page with a few.
	Slice int
}

// Page is a part of what was asked for.
type Page struct {
	Messages []Message

	// Next is the cursor that goes on behind this page; empty where nothing is left.
	Next string

	// Scanned is how many messages were looked at. It is more than those that are listed where no index serves the
	// question.
	Scanned int
}

const (
	// MaxLimit is the largest page.
	MaxLimit = 500

	// budget is the time after which a walk begins no other slice.
	budget = 40 * time.Millisecond

	// firstSlice is the size of the first slice of a walk. Those after it are larger or smaller, by how long it took.
	firstSlice, leastSlice = 100, 25

	// putOffAhead is how far ahead a message that is put off can fall due: the longest of node's retries, and room for
	// clocks that differ. A receiver may ask to be left alone for a day.
	putOffAhead, calledAhead = 10 * time.Minute, 25 * time.Hour

	// grace is how long after it has fallen due a message counts as overdue.
	grace = time.Second
)

// cursor is what Page.Next is made of.
type cursor struct {
	Lane string `json:"l,omitempty"`
	Part string `json:"p,omitempty"`
	At   int64  `json:"a"` // microseconds
	ID   string `json:"i"`
	Of   string `json:"o,omitempty"` // the lane of a claim
}

// errCursor is the error of a cursor that is none of ours.
var errCursor = errors.New("the cursor is none that a former page has returned")

// IsCursor reports whether an error is about the cursor of a query.
func IsCursor(err error) bool { return errors.Is(err, errCursor) }

// List returns a page of what is asked for: on lane after lane, and on each the parked messages of its parts after the
// others, in the order in which messages fall due; or, of those that are claimed, in the order in which claims expire.
// now is the clock that deadlines are compared with. It takes about a tenth of a second at most, three where messages
// are so large that fewer have to be read at a time, and may return fewer messages than Query.Limit, or none, and a
// cursor to go on with.
func List(ctx context.Context, source Source, q Query, now time.Time) (Page, error) {
	w := walk{
		source: source, query: q, now: now, end: time.Now().Add(budget), size: min(max(q.Slice, firstSlice), MaxSlice),
	}
	if w.query.Limit < 1 || w.query.Limit > MaxLimit {
		w.query.Limit = 100
	}
	if err := w.open(ctx); err != nil {
		return Page{}, err
	}
	return w.page, w.run(ctx)
}

// walk is one call of List.
type walk struct {
	source Source
	query  Query
	now    time.Time
	end    time.Time
	size   int         // of the next slice
	parts  []node.Part // those that are left; one without a lane for claims
	after  Mark
	page   Page
}

// open finds out where to begin.
func (w *walk) open(ctx context.Context) error {
	if err := w.find(ctx); err != nil {
		return err
	}
	if w.query.State == Overdue && w.query.Excused != nil {
		w.parts = slices.DeleteFunc(w.parts, func(p node.Part) bool { return w.query.Excused(p.Lane) })
	}
	if w.query.State == Parked {
		w.parts = slices.DeleteFunc(w.parts, func(p node.Part) bool { return p.Name == "" })
	}
	if w.query.Cursor == "" {
		w.after = w.first()
		return nil
	}
	var c cursor
	text, err := base64.RawURLEncoding.DecodeString(w.query.Cursor)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return errCursor
	}
	at := node.Part{Lane: c.Lane, Name: c.Part}
	w.parts = slices.DeleteFunc(w.parts, func(p node.Part) bool { return p.Compare(at) < 0 })
	if len(w.parts) > 0 && w.parts[0] == at {
		w.after = Mark{time.UnixMicro(c.At).UTC(), c.ID, cmp.Or(c.Of, c.Lane)}
	}
	return nil
}

// find finds the parts to walk along: those of the lanes that are asked for, or of all.
func (w *walk) find(ctx context.Context) error {
	lanes := slices.Compact(slices.Sorted(slices.Values(w.query.Lanes)))
	if w.claimed() {
		w.parts = []node.Part{{}}
		if len(lanes) == 1 {
			w.parts[0].Lane = lanes[0] // whoever may see one lane only is not told of others by a cursor
		}
		return nil
	}
	var err error
	if w.parts, err = w.source.Parts(ctx); err != nil || len(lanes) == 0 {
		return err
	}
	w.parts = slices.DeleteFunc(w.parts, func(p node.Part) bool {
		return p.Name == "" || !slices.Contains(lanes, p.Lane)
	})
	for _, lane := range lanes {
		w.parts = append(w.parts, node.Part{Lane: lane})
	}
	slices.SortFunc(w.parts, node.Part.Compare)
	return nil
}

// first returns where a part begins: no message falls due before its deadline.
func (w *walk) first() Mark {
	if w.query.From.IsZero() || w.claimed() {
		return Mark{}
	}
	return Mark{At: w.query.From.Add(-time.Microsecond)}
}

func (w *walk) claimed() bool { return w.query.State == Claimed || w.query.State == Stuck }

// run walks until the page is full, the budget is used up, or nothing is left.
func (w *walk) run(ctx context.Context) error {
	for len(w.parts) > 0 {
		limit := w.size
		if !w.filters() {
			limit = min(limit, w.query.Limit-len(w.page.Messages))
		}
		began := time.Now()
		slice, err := w.source.Slice(ctx, SliceRequest{
			Claimed: w.claimed(), Lane: w.parts[0].Lane, Part: w.parts[0].Name, After: w.after, Until: w.until(),
			Limit: limit,
		})
		if err != nil {
			switch tooLong := errors.Is(err, ErrTooLong); {
			case tooLong && w.page.Scanned > 0:
				w.stop()
				return nil // what has been found so far, and a cursor
			case tooLong && limit > 1:
				w.size = max(1, limit/10) // messages can have a megabyte of headers each
				continue
			}
			return fmt.Errorf("list messages: %w", err)
		}
		w.adapt(time.Since(began))
		for i := range slice {
			w.page.Scanned++
			w.after = Of(&slice[i], w.claimed())
			if w.matches(&slice[i]) {
				w.page.Messages = append(w.page.Messages, slice[i])
			}
			if len(w.page.Messages) >= w.query.Limit {
				w.stop()
				return nil
			}
		}
		if len(slice) < limit {
			w.parts, w.after = w.parts[1:], w.first()
		}
		if len(w.parts) > 0 && time.Now().After(w.end) {
			w.stop()
			return nil
		}
	}
	return nil
}

// adapt sets the size of the next slice by how long the last one took.
func (w *walk) adapt(took time.Duration) {
	switch {
	case took < budget/8:
		w.size = min(2*w.size, MaxSlice)
	case took > budget/2:
		w.size = max(w.size/2, leastSlice)
	}
}

// stop leaves a cursor that goes on from here.
func (w *walk) stop() {
	at := w.parts[0]
	c := cursor{Lane: at.Lane, Part: at.Name, At: w.after.At.UnixMicro(), ID: w.after.ID, Of: w.after.Lane}
	text, err := json.Marshal(c)
	if err != nil {
		return
	}
	w.page.Next = base64.RawURLEncoding.EncodeToString(text)
}

// filters reports whether messages of a slice may not match.
func (w *walk) filters() bool {
	q := &w.query
	return q.State == PutOff || q.Key != nil || q.Header != "" || !q.From.IsZero() || !q.Until.IsZero() ||
		w.claimed() && len(q.Lanes) > 0
}

// until returns where the order can be cut off. What is put off falls due after its deadline, but not much later than
// now.
func (w *walk) until() time.Time {
	latest := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	switch q := &w.query; {
	case q.State == Stuck:
		return w.now
	case q.State == Claimed:
		return latest
	case q.State == Overdue:
		return w.now.Add(-grace)
	case q.State == PutOff:
		return w.now.Add(w.ahead())
	case !q.Until.IsZero():
		if late := w.now.Add(w.ahead()); late.After(q.Until) {
			return late
		}
		return q.Until
	}
	return latest
}

// ahead returns how far ahead what is put off can fall due on the lane that comes next.
func (w *walk) ahead() time.Duration {
	if node.IsCallback(w.parts[0].Lane) {
		return calledAhead
	}
	return putOffAhead
}

func (w *walk) matches(m *Message) bool {
	q := &w.query
	switch {
	case q.State == PutOff && !m.Due.After(m.Deadline),
		!q.From.IsZero() && m.Deadline.Before(q.From),
		!q.Until.IsZero() && !m.Deadline.Before(q.Until),
		q.Key != nil && !bytes.Equal(m.Key, q.Key),
		w.claimed() && len(q.Lanes) > 0 && !slices.Contains(q.Lanes, m.Lane):
		return false
	}
	return q.Header == "" || slices.ContainsFunc(m.Headers, func(h node.Header) bool {
		return h.Name == q.Header && (q.HeaderValue == nil || bytes.Equal(h.Value, q.HeaderValue))
	})
}
