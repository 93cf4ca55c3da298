package journal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/journal"
)

// Goal: an entry that Chronos cannot have written stops nobody who owns the partition, is reported by the owner, by a
// standby and by a search with its partition, offset and key, keeps the next owner out with the same words, and is got
// past by one skip. Method: one such entry of each kind, in a partition with messages.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for name, stray := range map[string]node.Record{
		"a record without key":       {Value: []byte("hello")},
		"an unknown kind":            {Key: []byte("Hello"), Value: []byte("\x1b[31mred")},
		"a key that begins a fence":  {Key: []byte("foo"), Value: []byte("hello")},
		"a fence of nobody":          {Key: []byte("f"), Value: []byte("hello")},
		"a key that begins a group":  {Key: []byte("gaga"), Value: []byte("hello")},
		"a group that is gone":       {Key: []byte("g")},
		"a seal":                     {Key: []byte("s"), Value: []byte("hello")},
		"a key that begins a seal":   {Key: []byte("song"), Value: []byte("\x01")},
		"a position":                 {Key: []byte("p23456789012345678901"), Value: []byte("hello")},
		"a position that is gone":    {Key: []byte("p23456789012345678901")},
		"an answer":                  {Key: []byte("a2345678901234567"), Value: []byte("hello")},
		"a pause":                    {Key: []byte("zout"), Value: []byte("hello")},
		"a wish":                     {Key: []byte("w2345678901234567"), Value: []byte("hello")},
		"a wish under another key":   {Key: []byte("why"), Value: []byte("hello")},
		"a message":                  {Key: []byte("rout\x00x0123456789abcdef"), Value: []byte("hello")},
		"a message of a new release": {Key: []byte("rout\x00x0123456789abcdef"), Value: []byte("\x02hello")},
		"a message without names":    {Key: []byte("r"), Value: []byte("hello")},
		"a skip":                     {Key: []byte("k23456789"), Value: []byte("hello")},
		"a long one": {
			Key: []byte(strings.Repeat("x", 1000)), Value: []byte(strings.Repeat("y", 1000)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStanding(t, 0)
			items := s.many(10)
			s.take(s.stores[0], 0, items)
			s.follow()
			at := s.cluster.Append(topicName, 0, stray)
			s.fire(s.stores[0], 2) // goes on
			s.spotted(s.stores[0], at)
			said, _ := s.follower.Round(t.Context())
			if len(said) != 1 || !said[0].Warm || s.described(said[0].Err, at) == nil {
				t.Errorf("the standby says %+v", said)
			}
			for range 2 { // the second time its copy begins behind the entry
				err := s.standby.Own(t.Context(), 0, uuid.New())
				if s.described(err, at) == nil {
					t.Fatalf("the standby owns the partition: %v", err)
				}
			}
			unreadable := s.search()
			if len(unreadable) != 1 || unreadable[0].Offset != at {
				t.Fatalf("a search finds %v", unreadable)
			}
			s.skip(&unreadable[0])
			if left := s.search(); len(left) > 0 {
				t.Errorf("a search finds %v, which is skipped", left)
			}
			own(t, s.standby, 0)
			if got, want := s.ids(s.standby), s.fresh(); !slices.Equal(got, want) || len(got) != 8 {
				t.Errorf("the standby has %d messages, and a node without a copy %d, want 8", len(got), len(want))
			}
			own(t, s.standby, 0)
			s.fire(s.standby, 8)
		})
	}
}

// An owner that has reported an entry drops it when that is skipped, also if the skip comes in the same look.
func TestUnreadableIsSkippedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(3))
	at := s.cluster.Append(topicName, 0, node.Record{Key: []byte("hello")})
	s.spotted(s.stores[0], at)
	unreadable := s.search()
	wrong := unreadable[0]
	wrong.Digest[0]++
	s.skip(&wrong) // of another entry, in a log that has lost its end
	s.spotted(s.stores[0], at)
	s.skip(&unreadable[0])
	if err := s.stores[0].Hear(t.Context()); err != nil || len(s.stores[0].Unreadable()) > 0 {
		t.Errorf("the owner says %v, %v", s.stores[0].Unreadable(), err)
	}
	if lost := s.stores[0].Lost(); len(lost) > 0 {
		t.Errorf("the owner has lost %v", lost)
	}
	own(t, s.stores[1], 0)
}

// Goal: an entry that cannot be read stays reported until it is skipped, also when the node that has seen it owns the
// partition again, with its own copy: it keeps every other node out. Method: the owner commits something behind the
// entry, so that its copy is beyond it, and takes the partition over again, before and after the skip.
func TestUnreadableIsNotForgottenByItsOwner(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(3))
	at := s.cluster.Append(topicName, 0, node.Record{Key: []byte("hello"), Value: []byte("stray")})
	s.spotted(s.stores[0], at)
	s.fire(s.stores[0], 1) // the copy of the owner is behind the entry now
	for range 2 {
		own(t, s.stores[0], 0)
		s.spotted(s.stores[0], at)
	}
	if err := s.stores[1].Own(t.Context(), 0, uuid.New()); s.described(err, at) == nil {
		t.Errorf("another node owns it: %v", err)
	}
	own(t, s.stores[0], 0)
	s.skip(&s.search()[0])
	for range 2 {
		if err := s.stores[0].Hear(t.Context()); err != nil || len(s.stores[0].Unreadable()) > 0 {
			t.Errorf("after the skip the owner reports %v, %v", s.stores[0].Unreadable(), err)
		}
		s.fire(s.stores[0], 1)
		own(t, s.stores[0], 0)
	}
}

// Goal: an entry that the next owner has written is none that this node has passed: a newer release may have. Method:
// an owner looks at the partition when the entry stands behind the fence of another node, and takes it over again.
func TestUnreadableOfTheNextOwner(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(3))
	own(t, s.stores[1], 0)
	at := s.cluster.Append(topicName, 0, node.Record{Key: []byte("hello"), Value: []byte("of a newer release")})
	if err := s.stores[0].Hear(t.Context()); err != nil || len(s.stores[0].Unreadable()) > 0 {
		t.Errorf("the former owner reports %v, %v", s.stores[0].Unreadable(), err)
	}
	for range 2 {
		if err := s.stores[0].Own(t.Context(), 0, uuid.New()); s.described(err, at) == nil {
			t.Errorf("the former owner owns it: %v", err)
		}
	}
}

// Goal: an entry that cannot be read, and that compaction has removed since, does not keep a node with a copy out:
// there is nothing left to skip. Method: the local copy of a standby has noted it; another record is written under its
// key, or a tombstone, and the cleaner runs.
func TestUnreadableIsCompactedAway(t *testing.T) {
	t.Parallel()
	for name, value := range map[string][]byte{"once more": []byte("again"), "a tombstone": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStanding(t, 0)
			s.take(s.stores[0], 0, s.many(3))
			s.follow()
			at := s.cluster.Append(topicName, 0, node.Record{Key: []byte("hello"), Value: []byte("stray")})
			if err := s.standby.Own(t.Context(), 0, uuid.New()); s.described(err, at) == nil {
				t.Fatalf("it owns the partition: %v", err)
			}
			s.cluster.Append(topicName, 0, node.Record{Key: []byte("hello"), Value: value})
			s.cluster.Compact(topicName, 0, true)
			found := s.search()
			for i := range found {
				s.skip(&found[i])
			}
			if left := s.search(); len(left) > 0 {
				t.Fatalf("a search finds %v", left)
			}
			own(t, s.standby, 0)
		})
	}
}

// Of very many entries a few are described, and all are counted.
func TestUnreadableMany(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	for range 3000 {
		s.cluster.Append(topicName, 0, node.Record{Key: []byte("hello"), Value: make([]byte, 100)})
	}
	var unreadable *journal.UnreadableError
	err := s.stores[1].Own(t.Context(), 0, uuid.New())
	if !errors.As(err, &unreadable) || unreadable.All != 3000 || len(unreadable.Entries) > 20 ||
		len(err.Error()) > 800 {
		t.Errorf("the next owner says %v", err)
	}
	if found := s.search(); len(found) != 1000 {
		t.Errorf("a search for 1000 finds %d", len(found))
	}
}

// spotted asks that an owner reports one entry.
func (s *standing) spotted(store *journal.Store, at int64) {
	s.Helper()
	if err := store.Hear(s.Context()); err != nil {
		s.Fatal(err)
	}
	all := store.Unreadable()
	if len(all) != 1 || all[0].Offset != at || all[0].Number != 0 {
		s.Fatalf("the owner reports %v, want the entry at %d", all, at)
	}
}

// described returns an error if it describes an entry.
func (s *standing) described(err error, at int64) *journal.UnreadableError {
	s.Helper()
	var unreadable *journal.UnreadableError
	if !errors.As(err, &unreadable) || len(unreadable.Entries) != 1 || unreadable.Entries[0].Offset != at {
		return nil
	}
	text := err.Error()
	for _, has := range []string{"partition 0", "offset ", "key ", "chronos journal skip"} {
		if !strings.Contains(text, has) {
			s.Errorf("%q has no %q", text, has)
		}
	}
	if len(text) > 700 || strings.ContainsAny(text, "\x1b\x00\n") {
		s.Errorf("%d bytes, or bytes that are not quoted: %q", len(text), text)
	}
	return unreadable
}

// search searches the partition.
func (s *standing) search() []journal.Unreadable {
	s.Helper()
	extents, err := s.log.Extents(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	found, from, err := journal.Search(context.WithoutCancel(s.Context()), s.log, extents[0], 1000)
	if err != nil || from != extents[0].First {
		s.Fatalf("it has come to %d, %v", from, err)
	}
	return found
}

// skip skips an entry.
func (s *standing) skip(u *journal.Unreadable) {
	s.Helper()
	record, err := journal.Skip(u, "somebody", s.clock.Now())
	if err != nil {
		s.Fatal(err)
	}
	s.cluster.Append(topicName, 0, record)
}
