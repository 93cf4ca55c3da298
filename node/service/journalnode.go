package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/broker/kafka"
	"chronos/node/ledger"
	"chronos/node/store/journal"
)

// owningSource is the source of a node with a journal: it owns what the group assigns.
type owningSource struct {
	*journal.Source

	beneath *kafka.Source
}

// Joined reports whether the node is in its group.
func (s *owningSource) Joined() bool { return s.beneath.Joined() }

// Close gives up what is owned, and leaves the group.
func (s *owningSource) Close(ctx context.Context) error {
	s.Source.Close()
	return s.beneath.Close(ctx)
}

// own puts a journal over the source: nothing of a partition comes in before the journal has been read.
func (s *Service) own() error {
	store, is := s.store.Store.(*journal.Store)
	beneath, reads := s.source.(*kafka.Source)
	if !is || !reads {
		return nil
	}
	opened := s.store.journal
	poster, err := opened.openSenders(nil, func(t JournalTopic) string { return t.Topic })
	if err != nil {
		return err
	}
	log, _ := opened.log()
	s.poster, s.board = poster, journal.NewSwitchboard(log, poster, journal.AskerLimits{})
	store.SwitchBy(s.board)
	store.ClaimAhead(s.config.Node.ClaimAhead())
	w := &owningWatch{
		service: s, copies: map[int32]journal.Replay{}, said: map[int32]time.Time{}, trouble: map[int32]string{},
		unread: map[int32]int{},
	}
	s.store.journal.observe = w.replay
	s.owning = w
	s.config.Node.Requests = node.NewMarks(s.config.RequestSecrets...) // of whichever node is asked by HTTP
	session := cmp.Or(s.config.SessionTimeout, kafka.DefaultSessionTimeout)
	s.source = &owningSource{journal.NewSource(beneath, store, uuid.New(), session, w.attempt), beneath}
	return nil
}

// listenInterval is the time between two looks for what somebody wants to pause: each asks Kafka once where the
// partitions of the journal end.
const listenInterval = 500 * time.Millisecond

// heed does what is wished in the partitions of the journal that this node owns, until ctx is done.
func (s *Service) heed(ctx context.Context) {
	if store, is := s.store.Store.(*journal.Store); is && s.board != nil {
		store.Listen(ctx, listenInterval)
	}
}

// owningWatch tells people, and the metrics, how it goes with the partitions of the journal.
type owningWatch struct {
	service *Service

	mu      sync.Mutex
	copies  map[int32]journal.Replay // how far local copies are caught up that are to be owned, by the partition
	said    map[int32]time.Time      // when somebody was told how a replay gets on; since the first sight of it
	trouble map[int32]string         // why a partition can't be owned, as it was said last
	unread  map[int32]int            // how many unreadable entries are the cause, of those in trouble
	seen    []journal.Unreadable     // that have appeared in what this node owns, as was said last
}

// progressInterval is how often the log has how a replay gets on.
const progressInterval = 5 * time.Second

// replay notes how a local copy is caught up.
func (w *owningWatch) replay(r journal.Replay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.copies[r.Number] = r
	w.show()
	now := time.Now()
	if last, known := w.said[r.Number]; !known || now.Sub(last) < progressInterval {
		if !known {
			w.said[r.Number] = now
		}
		return
	}
	w.said[r.Number] = now
	w.service.log.Info("reading the journal, before anything of this partition is taken in or fired",
		w.service.store.journal.partition(r.Number), slog.Int64("entries_read", r.Read),
		slog.Int64("entries_left_at_most", max(0, r.Left)), slog.Bool("copy_is_new", r.Anew))
}

// show has the metrics show what is left to read.
func (w *owningWatch) show() {
	total := int64(0)
	for _, copied := range w.copies {
		total += max(0, copied.Left)
	}
	w.service.metrics.ReplayLeft(total)
}

// attempt notes how an attempt to own a partition has ended. One that failed is repeated in a second, and said once for
// each reason.
func (w *owningWatch) attempt(number int32, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	copied := w.copies[number]
	delete(w.copies, number)
	delete(w.said, number)
	w.show()
	var sealed *journal.SealedError
	switch {
	case errors.As(err, &sealed):
		w.service.fail(&SealedError{Seal: sealed.Seal})
	case isFatal(err):
		w.service.fail(err)
	case errors.Is(err, context.Canceled): // the group has taken the partition away meanwhile
		w.well(number)
	case err != nil:
		w.service.metrics.Owned(false)
		w.failed(number, err)
	default:
		w.service.metrics.Owned(true)
		w.well(number)
		w.service.log.Info("owns a partition of the journal", w.service.store.journal.partition(number),
			slog.Int64("entries_read", copied.Read), slog.Bool("copy_is_new", copied.Anew))
	}
}

// well notes that a partition is served, or is another node's to serve.
func (w *owningWatch) well(number int32) {
	delete(w.trouble, number)
	delete(w.unread, number)
	w.count()
}

// count has the metrics show how many unreadable entries there are. The caller has mu.
func (w *owningWatch) count() {
	total := len(w.seen)
	for _, entries := range w.unread {
		total += entries
	}
	w.service.metrics.Unreadable(total)
}

// failed says why a partition can't be owned, once for each reason.
func (w *owningWatch) failed(number int32, err error) {
	why := oneLine(err)
	if why == w.trouble[number] {
		return
	}
	w.trouble[number] = why
	delete(w.unread, number)
	facts := []any{w.service.store.journal.partition(number), slog.String("error", why)}
	if unreadable, is := errors.AsType[*journal.UnreadableError](err); is {
		w.unread[number] = unreadable.All
		w.service.log.Error("a partition of the journal is not served: it has an entry that cannot be read",
			append(entryFacts(&unreadable.Entries[0]), facts...)...)
	} else {
		w.service.log.Warn("a partition of the journal cannot be taken over yet, and nothing of it fires", facts...)
	}
	w.count()
}

// entryFacts says in a log which entry of the journal something is about.
func entryFacts(u *journal.Unreadable) []any {
	return []any{slog.Int64("offset", u.Offset), slog.String("key", strconv.QuoteToASCII(string(u.Key)))}
}

// look notes which unreadable entries have appeared in what this node owns. Each is said once.
func (w *owningWatch) look(entries []journal.Unreadable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		u := &entries[i]
		if slices.ContainsFunc(w.seen, func(s journal.Unreadable) bool {
			return s.Number == u.Number && s.Offset == u.Offset
		}) {
			continue
		}
		w.service.log.Error("an entry has appeared in the journal that cannot be read: this node goes on, and the "+
			"next owner of the partition will not be able to",
			append(entryFacts(u), w.service.store.journal.partition(u.Number), slog.String("error", u.String()))...)
	}
	w.seen = entries
	w.count()
}

// check answers whether this node serves all partitions of the journal that the group has given it.
func (w *owningWatch) check() admin.Check {
	check := admin.Check{
		Name: "journal", OK: true, Detail: "every partition that this node was given is served, or is being read",
	}
	if said := w.troubles(); len(said) > 0 {
		w.mu.Lock()
		check.OK = len(w.trouble) == 0
		w.mu.Unlock()
		check.Detail = strings.Join(said, "; ")
	}
	return check
}

// troubles says what is wrong with partitions of the journal, those that are not served first.
func (w *owningWatch) troubles() (said []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(w.trouble)) {
		said = append(said, fmt.Sprintf("partition %s is not served: %s", ledger.Name(number), w.trouble[number]))
	}
	for i := range w.seen {
		said = append(said, "the next owner will not be able to read an entry: "+w.seen[i].String())
	}
	return said
}

// EmptyJournalError says that a consumer group has come far with another store than this journal.
type EmptyJournalError struct{ Topic, Group string }

// Error returns the sentence for a person.
func (e *EmptyJournalError) Error() string {
	return fmt.Sprintf("consumer group %s has committed offsets, and there is nothing in the journal %s: if it is the "+
		"wrong journal, name the right one; if it is a new one on purpose, name a new --group, which begins with "+
		"everything that Kafka has", e.Group, e.Topic)
}

// bindJournal waits until Kafka has said that the journal is that of this consumer group, as far as that can be told
// before a partition is owned. A journal has positions as soon as somebody has owned one of its partitions, and they
// come before the commits of the group:
//
//	this node   is told that the journal is empty
//	                                         a peer owns a partition, takes in the first records, and commits
//	this node   is told of committed offsets
//
// So if it is empty even after that, the offsets are of another store.
func (s *Service) bindJournal(ctx context.Context) error {
	port := &preparation{service: s, port: node.PortSource}
	return s.retry(ctx, func() (bool, error) {
		limited, cancel := context.WithTimeout(ctx, laterLook)
		defer cancel()
		err := s.identifyInputs(limited)
		for _, part := range s.store.journal.parts {
			if err == nil {
				err = s.bindPart(limited, part)
			}
		}
		if _, is := errors.AsType[*EmptyJournalError](err); is {
			return false, err
		}
		if err != nil {
			return false, port.failed(ctx, "look at the journal", err)
		}
		port.answered()
		return true, nil
	})
}

// bindPart returns an EmptyJournalError if the group has come far with an input topic, and its journal is empty.
func (s *Service) bindPart(ctx context.Context, part *journalPart) error {
	records, err := part.ledger.Records(ctx)
	if err != nil || records > 0 {
		return err
	}
	committed, err := s.admin.Committed(ctx, s.config.Group, part.Input)
	if err != nil || len(committed) == 0 {
		return err
	}
	if records, err = part.ledger.Records(ctx); err == nil && records == 0 {
		return &EmptyJournalError{Topic: part.Topic, Group: s.config.Group}
	}
	return err
}

// identifyInputs tells the store which topics its input topics are, where there are several.
func (s *Service) identifyInputs(ctx context.Context) error {
	store, is := s.store.Store.(*journal.Store)
	if !is || len(s.store.journal.parts) < 2 {
		return nil
	}
	var ids []uuid.UUID
	for _, part := range s.store.journal.parts {
		id, _, err := part.ledger.Identify(ctx, part.Input)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	store.Identify(ids)
	return nil
}

// IsDamaged reports whether a node has ended because its local copy of a journal is damaged. It makes the copy anew
// when it is opened again.
func IsDamaged(err error) bool {
	disk, is := errors.AsType[*journal.DiskError](err)
	return is && disk.Damaged
}

// isFatal reports whether an error is the cause that a running node has been ended for.
func isFatal(err error) bool {
	var other *journal.OtherGroupError
	var disk *journal.DiskError
	if _, swapped := errors.AsType[*journal.SwappedError](err); swapped {
		return true
	}
	return isSealed(err) || errors.As(err, &other) || errors.As(err, &disk)
}
