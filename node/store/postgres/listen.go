package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/node"
)

// Nodes that have nothing to do look seldom (node.Config.IdleInterval), so who stores something past Kafka, or gives a
// claim back, tells them: it notifies a channel that is named after the schema of the tables, and each node listens
// there on a connection of its own. Nothing is lost where that is lost: it is found at the next look.
//
// A notification is a transaction of its own, after the commit of what it tells of, and never a part of that. Postgres
// lets only one transaction that notifies commit at a time, in all databases of the server, and refuses it when the
// queue of notifications is full, since some session has not read it for long: neither must meet a message. The price
// is that a process which dies in between tells nobody.
//
// Whether listening works cannot be asked. A pooler that shares connections between transactions takes LISTEN and
// returns no notification ever, and a connection may be dead for a while before either end knows. So a listener proves
// it: it notifies a channel that it alone listens to, through the connections of the calls, at the start and then
// every proveEvery. Only from the one answer to the next, or its time limit, does Hears say that it hears. Through the
// connection that listens, the proof would be none: on that, a pooler that hands the session's own server to it for the
// moment returns what is lost a moment later.
const (
	// tellGap is the least time between two notifications of a store. It is less than a poll interval is by default, so
	// that nobody hears later than he would have looked; and the first one after a rest is sent at once.
	tellGap = 50 * time.Millisecond

	// tellTries is how often a notification is sent that fails: the first connection of the pool that is tried may be a
	// dead one. Nobody hears through a server that is away for longer.
	tellTries = 3

	// proveEvery is the time from one proof to the next. So long, and a time limit of a call, a node may go on resting
	// that does not hear any more.
	proveEvery = 5 * time.Second

	// deafMin and deafMax bound how long a listener rests that could not connect, or did not hear itself.
	deafMin, deafMax = 250 * time.Millisecond, 30 * time.Second

	// tellWithin is the time from now within which a message is due that somebody has to be told of. What is due later
	// each node finds in time, however long it rests. The rest is for clocks that differ.
	tellWithin = node.MaxIdleInterval + 5*time.Second
)

const (
	channelStatement = "SELECT 'chronos_' || relnamespace::text FROM pg_class WHERE oid = to_regclass('messages')"

	// notifyStatement notifies the channel of the schema, or one of those whose names go on from there. Whoever cannot
	// see the tables notifies nobody.
	notifyStatement = "SELECT pg_notify('chronos_' || relnamespace::text || $1::text, '') FROM pg_class " +
		"WHERE oid = to_regclass('messages')"
)

// Errors of a listener, which TryHearing returns.
var (
	errDeaf     = errors.New("the server has not returned a notification")
	errNoTables = errors.New("there is no table of messages in the search path")
)

// Hears reports whether notifications of others arrive here, as Listen has found out lately. It is safe for concurrent
// use.
func (s *Store) Hears() bool { return s.hears.Load() }

// Listen calls heard whenever somebody may have stored something that is due soon, past the node of this process, and
// whenever Hears has become false, until ctx is done. It needs a connection besides those of the pool. A server that is
// away is tried again, and so is one through which nothing is heard. heard must not block. Behind a pooler
// (Options.PgBouncer) it returns at once, and Hears stays false.
func (s *Store) Listen(ctx context.Context, heard func()) {
	if s.options.PgBouncer {
		return
	}
	wait := deafMin
	for ctx.Err() == nil {
		_ = s.listen(ctx, heard, false) // that it does not hear is all that matters
		if s.hears.Swap(false) {
			heard()
			wait = deafMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(2*wait, deafMax)
	}
}

// TryHearing returns nil if a notification that goes through the pool arrives at a connection that listens. Otherwise
// nodes at this address never rest.
func (s *Store) TryHearing(ctx context.Context) error {
	if s.options.PgBouncer {
		return errors.New("a pooler that shares connections between transactions passes no notifications on")
	}
	return s.listen(ctx, func() {}, true)
}

// listen listens on a connection of its own until that has failed, or a proof; or, if once, until the first proof.
func (s *Store) listen(ctx context.Context, heard func(), once bool) error {
	conn, err := s.connectListener(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout/4)
		defer cancel()
		_ = conn.Close(closing)
	}()
	l := listener{conn: conn, heard: heard, suffix: "_" + strings.ToLower(rand.Text())}
	if err := l.begin(ctx, s.options.Timeout); err != nil {
		return err
	}
	for {
		if err := s.notify(ctx, l.suffix); err != nil {
			return fmt.Errorf("notify itself: %w", err)
		}
		if answered, err := l.wait(ctx, s.options.Timeout, true); err != nil || !answered {
			return errors.Join(errDeaf, err)
		}
		if once {
			return nil
		}
		s.hears.Store(true)
		if _, err := l.wait(ctx, proveEvery, false); err != nil {
			return err
		}
	}
}

// connectListener makes a connection as the pool does.
func (s *Store) connectListener(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	config := s.pool.Config()
	if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// listener is a connection that listens.
type listener struct {
	conn   *pgx.Conn
	heard  func()
	suffix string // of the channel that it alone listens to
	own    string // the channel
}

// begin says to which channels it listens.
func (l *listener) begin(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var channel string
	switch err := l.conn.QueryRow(ctx, channelStatement).Scan(&channel); {
	case errors.Is(err, pgx.ErrNoRows):
		return errNoTables
	case err != nil:
		return err
	}
	l.own = channel + l.suffix
	for _, name := range []string{channel, l.own} {
		if _, err := l.conn.Exec(ctx, "LISTEN "+pgx.Identifier{name}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

// wait hears what comes for so long. If it is for an answer to its own notification, it ends with that.
func (l *listener) wait(ctx context.Context, long time.Duration, forOwn bool) (answered bool, err error) {
	limited, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	for {
		n, err := l.conn.WaitForNotification(limited)
		switch {
		case ctx.Err() != nil || err != nil && (limited.Err() == nil || l.conn.IsClosed()):
			return false, errors.Join(ctx.Err(), err)
		case err != nil:
			return false, nil // the time is over
		case n.Channel != l.own:
			l.heard()
		case forOwn:
			return true, nil
		}
	}
}

// notify notifies the channel of the schema, or that of a listener.
func (s *Store) notify(ctx context.Context, suffix string) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	return s.once(ctx, func() {}, step{statement: notifyStatement, arguments: []any{suffix}})
}

// teller tells nodes that rest that something has been stored, with tellGap between two notifications at least:
//
//	call     stores x, tells
//	teller                    notifies; waits for tellGap
//	call     stores y, tells: it is noted
//	teller                    notifies
//
// What is noted while a notification is under way may have been stored after that was sent, so it has one more.
type teller struct {
	mu      sync.Mutex
	noted   bool          // something is to be told
	running bool          // and somebody does
	ended   bool          // the store is being closed
	last    time.Time     // when the last notification had been sent
	hurry   chan struct{} // closed with ended
	done    sync.WaitGroup
}

// tell has those told that rest, soon. What it tells of has been committed. It does not wait for that, but Close does.
func (s *Store) tell() {
	t := &s.teller
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.noted = true
	if !t.running {
		t.running = true
		t.done.Go(s.tellNoted)
	}
}

// tellNoted tells of what is noted, until nothing has been for tellGap.
func (s *Store) tellNoted() {
	t := &s.teller
	for tries := 1; ; tries++ {
		t.mu.Lock()
		wait := time.Until(t.last.Add(tellGap))
		t.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-t.hurry:
			timer.Stop()
		}
		t.mu.Lock()
		if !t.noted {
			t.running = false
			t.mu.Unlock()
			return
		}
		t.noted = false
		t.mu.Unlock()
		err := s.notify(context.Background(), "")
		t.mu.Lock()
		t.last = time.Now()
		again := err != nil && tries < tellTries && !t.ended
		t.noted = t.noted || again
		if !again {
			tries = 0 // whoever is not told looks by himself
		}
		t.mu.Unlock()
	}
}

// close tells of what is noted, and ends.
func (t *teller) close() {
	t.mu.Lock()
	if !t.ended {
		t.ended = true
		close(t.hurry)
	}
	t.mu.Unlock()
	t.done.Wait()
}

// tells reports whether a take may have made something due soon that no node's own intake has brought: what comes from
// Kafka, the node that takes it in claims itself.
func (t *take) tells() bool {
	past := false
	for i := range t.request.Items {
		item := &t.request.Items[i]
		if item.From != node.NoPlace {
			continue
		}
		past = true
		// Of what the others change nobody knows here what it was.
		if item.Action != node.Schedule || soon(&item.Message, t.now) {
			return true
		}
	}
	return past && len(t.replies) > 0 // which are due at once
}

// soon reports whether a message falls due so soon that a node which rests has to be told.
func soon(m *node.Message, now time.Time) bool { return m.Deadline.Before(now.Add(tellWithin)) }
