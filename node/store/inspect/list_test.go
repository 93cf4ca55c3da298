package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/store/inspect"
)

// heavy is a source with messages so large that no more than a few of them can be read within the time limit.
type heavy struct {
	inspect.Source

	messages, most int
}

// Parts implements inspect.Source.
func (*heavy) Parts(context.Context) ([]node.Part, error) { return nil, nil }

// Slice implements inspect.Source.
func (h *heavy) Slice(_ context.Context, r inspect.SliceRequest) (slice []inspect.Message, err error) {
	if r.Limit > h.most {
		return nil, fmt.Errorf("look at lane %s: %w", r.Lane, inspect.ErrTooLong)
	}
	for i := range h.messages {
		var m inspect.Message
		m.ID, m.Lane, m.Due = fmt.Sprintf("%03d", i), r.Lane, time.UnixMicro(1).UTC()
		if len(slice) < r.Limit && (m.Due.After(r.After.At) || m.ID > r.After.ID) {
			slice = append(slice, m)
		}
	}
	return slice, nil
}

// Goal: whoever may submit messages cannot keep others from listing what waits, by large ones. Method: a source that
// gives up on more than a few messages is listed to its end, page by page; one that gives up on a single one says so.
func TestListOfLargeMessages(t *testing.T) {
	for _, most := range []int{1, 3, 20} {
		source, query, found := &heavy{messages: 40, most: most}, inspect.Query{Lanes: []string{"a"}}, 0
		for range 200 {
			page, err := inspect.List(t.Context(), source, query, time.Now())
			if err != nil {
				t.Fatalf("%d at a time: after %d messages: %v", most, found, err)
			}
			found += len(page.Messages)
			if query.Cursor = page.Next; query.Cursor == "" {
				break
			}
		}
		if found != source.messages || query.Cursor != "" {
			t.Errorf("%d at a time: %d messages are listed, want %d", most, found, source.messages)
		}
	}
	if _, err := inspect.List(t.Context(), &heavy{}, inspect.Query{Lanes: []string{"a"}}, time.Now()); err == nil {
		t.Error("a source that never ends a look is listed without an error")
	}
}

// lanes is a source of messages that wait, each on a lane of its own.
type lanes struct {
	inspect.Source

	all []inspect.Message
}

// Parts implements inspect.Source.
func (*lanes) Parts(context.Context) ([]node.Part, error) { return nil, nil }

// Slice implements inspect.Source.
func (l *lanes) Slice(_ context.Context, r inspect.SliceRequest) (slice []inspect.Message, err error) {
	for _, m := range l.all {
		if m.Lane == r.Lane && !m.Due.After(r.Until) && m.Due.After(r.After.At) {
			slice = append(slice, m)
		}
	}
	return slice, nil
}

// Goal: what is put off is found however far ahead it falls due: a receiver may have asked to be left alone for a day.
func TestListOfDeferredCallbacks(t *testing.T) {
	now := time.Now().UTC()
	source := &lanes{all: make([]inspect.Message, 2)}
	for i, lane := range []string{"http:a", "topic"} {
		m := &source.all[i]
		m.ID, m.Lane, m.Deadline, m.Due = lane, lane, now.Add(-time.Minute), now.Add([]time.Duration{
			24 * time.Hour, 9 * time.Minute,
		}[i])
	}
	for name, query := range map[string]inspect.Query{
		"put off": {State: inspect.PutOff}, "by deadline": {Until: now},
	} {
		query.Lanes = []string{"http:a", "topic"}
		page, err := inspect.List(t.Context(), source, query, now)
		if err != nil || len(page.Messages) != 2 {
			t.Errorf("%s: %d messages are listed, %v; want 2", name, len(page.Messages), err)
		}
	}
}

// claims is a source that notes what claims it is asked for.
type claims struct {
	inspect.Source

	asked []string
}

// Parts implements inspect.Source.
func (*claims) Parts(context.Context) ([]node.Part, error) { return nil, nil }

// Slice implements inspect.Source.
func (c *claims) Slice(_ context.Context, r inspect.SliceRequest) ([]inspect.Message, error) {
	c.asked = append(c.asked, fmt.Sprint(r.Claimed, " ", r.Lane))
	return nil, nil
}

// Goal: whoever lists what is claimed on one lane goes through no other, of which the cursor and the count would tell.
func TestListOfClaimsOnOneLane(t *testing.T) {
	for want, query := range map[string]inspect.Query{
		"true a":  {State: inspect.Claimed, Lanes: []string{"a"}},
		"true ":   {State: inspect.Stuck},
		"false a": {State: inspect.Waiting, Lanes: []string{"a"}},
	} {
		source := &claims{}
		if _, err := inspect.List(t.Context(), source, query, time.Now()); err != nil ||
			len(source.asked) != 1 || source.asked[0] != want {
			t.Errorf("%+v: asked for %q, %v; want %q", query, source.asked, err, want)
		}
	}
}
