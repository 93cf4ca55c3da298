package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

const (
	// pollWait is how long Poll waits for records, and pollUncommitted how long while something that it has returned is
	// not committed. The enqueuer commits between polls: what was taken in last shows as lag for as long as this after
	// the topic has run dry.
	pollWait        = time.Second
	pollUncommitted = 100 * time.Millisecond

	// pollRest is the time between two polls of which the first has brought few records. Each poll with records costs a
	// transaction of the store, which a busy topic would make for every ten records that have come meanwhile; a record
	// that comes after a rest is returned at once.
	pollRest   = 20 * time.Millisecond
	fewRecords = 250

	// commitWait is how long Commit waits for the group to answer: nothing depends on it that intake could wait for.
	commitWait = 200 * time.Millisecond

	// commitTimeout bounds the request of a commit, which goes on after Commit has returned.
	commitTimeout = 5 * time.Second

	// leaveTimeout bounds the leaving of the group. Beyond it, the group is left to find out by itself.
	leaveTimeout = 2 * time.Second
)

// errClosed is the error of every call after Close.
var errClosed = errors.New("the connection to Kafka is closed")

// Source is node.Source on a Kafka cluster. NewSource makes one; Close ends it.
type Source struct {
	config  SourceConfig
	log     *slog.Logger
	repeats repeats
	admin   *Admin
	seeds   *seeds

	// turn is held by all methods: one at a time. It guards member, which is nil while the node is not in the group,
	// and rested, before which Poll does not poll.
	turn   sync.Mutex
	member *member
	rested time.Time

	// uncommitted says that Poll has returned records since the last commit.
	uncommitted bool

	// current is member for those who do not take turns.
	current atomic.Pointer[member]

	// mu guards what follows: whether Close has begun, and how to end a Poll that waits.
	mu        sync.Mutex
	closed    bool
	interrupt context.CancelFunc
}

var _ node.Source = (*Source)(nil)

// NewSource returns a Source for config. It connects to nothing yet, so that it succeeds while all brokers are away; a
// configuration that can never work is an error, a *node.ConfigError wherever one setting is to blame.
func NewSource(config SourceConfig) (*Source, error) {
	config = sourceDefaults(config)
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := kgo.ValidateOpts(config.options()...); err != nil {
		return nil, fmt.Errorf("configure Kafka client: %w", err)
	}
	admin, err := NewAdmin(config.Connection)
	if err != nil {
		return nil, err
	}
	return &Source{
		config: config, log: config.Logger, admin: admin, seeds: newSeeds(&config.Connection),
	}, nil
}

// Poll returns what has come; see node.Source. It waits for a second at most, and returns an error if consuming
// fails and nothing came in that time.
func (s *Source) Poll(ctx context.Context) (node.Batch, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	wait := pollWait
	if s.uncommitted {
		wait = pollUncommitted
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if !s.interruptible(cancel) {
		return node.Batch{}, fmt.Errorf("poll: %w", errClosed)
	}
	if s.member == nil {
		m, err := newMember(s)
		if err != nil {
			return node.Batch{}, fmt.Errorf("poll: join group %s: %w", s.config.Group, err)
		}
		s.member = m
		s.current.Store(m)
	}
	rest(waiting, s.rested)
	batch, err := s.member.poll(waiting)
	s.rested = time.Time{}
	s.uncommitted = s.uncommitted || len(batch.Records) > 0
	if n := len(batch.Records); 0 < n && n < fewRecords {
		s.rested = time.Now().Add(pollRest)
	}
	if s.member.fouled.Load() {
		// What it returned is not ours to deal with, or not any more. The next member is assigned its
		// partitions anew.
		s.log.LogAttrs(ctx, slog.LevelDebug, "starting over as a new member of the group")
		batch = node.Batch{Revoked: append(batch.Revoked, s.member.told()...)}
		_ = s.leave(ctx)
		return batch, nil
	}
	if err != nil && ctx.Err() == nil {
		return node.Batch{}, fmt.Errorf("poll: %w", err)
	}
	return batch, nil
}

// rest waits until an instant, or until ctx is done.
func rest(ctx context.Context, until time.Time) {
	left := time.Until(until)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Joined reports whether the node is in its consumer group, with or without partitions. It does not wait for a Poll
// that is under way.
func (s *Source) Joined() bool {
	m := s.current.Load()
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id != "" && m.joining == nil
}

// Start has partitions be read from places; see node.Source. It waits for nobody: what it takes to go to another place
// is done by the next Poll, which repeats it until it succeeds.
func (s *Source) Start(_ context.Context, places []node.Place) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.member != nil {
		s.member.start(places)
	}
	return nil
}

// Pause has partitions not be read until Start names them again; see node.Source.
func (s *Source) Pause(partitions []node.Partition) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.member != nil {
		s.member.pauseReading(partitions)
	}
}

// Commit tells the group how far partitions have been taken in; see node.Source. It waits for a moment only: a commit
// that takes longer goes on, and those that come meanwhile are sent together after it.
func (s *Source) Commit(ctx context.Context, places []node.Place) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.member == nil || len(places) == 0 {
		return nil // all partitions were given up
	}
	if err := s.member.commits.commit(ctx, places); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.uncommitted = false
	return nil
}

// Extents returns what each partition of each input topic holds; see node.Source. It tries until ctx is done, for some
// seconds at most.
func (s *Source) Extents(ctx context.Context) ([]node.Extent, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*lookTimeout)
	defer cancel()
	return s.admin.extentsAsFarAsKnown(ctx, s.config.Inputs)
}

// Leave leaves the group; see node.Source. After two seconds it leaves without the consent of the group, which gives
// the partitions to others once the session has timed out; the error says so.
func (s *Source) Leave(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.leave(ctx)
}

// Close leaves the group, without committing anything, and closes all connections. It returns within seconds even if no
// broker answers, sooner if ctx is done; its error says that the group was not left, and has to find out by itself.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.interrupt != nil {
		s.interrupt()
	}
	s.mu.Unlock()

	s.turn.Lock()
	defer s.turn.Unlock()
	err := s.leave(ctx)
	s.admin.Close()
	return err
}

// interruptible has Close call cancel, and reports whether it is not too late for that.
func (s *Source) interruptible(cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt = cancel
	return !s.closed
}

func (s *Source) leave(ctx context.Context) error {
	if s.member == nil {
		return nil
	}
	m := s.member
	s.member = nil
	s.current.Store(nil)
	if err := m.leave(ctx); err != nil {
		return fmt.Errorf("leave group %s: %w", s.config.Group, err)
	}
	return nil
}
