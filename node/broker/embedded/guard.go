package embedded

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"golang.org/x/sync/semaphore"
)

const (
	// maxConnections is how many connections there are at a time. For one more the one is closed that has been idle for
	// longest, if that is idleEnough; otherwise the new one is.
	maxConnections = 1_000

	// idleEnough is longer than a client waits for an answer to a Fetch.
	idleEnough = 10 * time.Second

	// idleTime is how long a connection may say nothing, as Kafka's connections.max.idle.ms.
	idleTime = 10 * time.Minute

	// requestTime is how long a request that has begun may take to arrive, with a second more for each MiB of it.
	requestTime = 30 * time.Second

	// writeTime is how long a client may take to accept writeChunk bytes.
	writeTime  = 30 * time.Second
	writeChunk = 1 << 20

	// maxHeld is how many bytes the requests that are on their way may hold in all.
	maxHeld = 256 << 20

	// smallRequest is the size to which a request is let through whatever is held.
	smallRequest = 4 << 10

	// growth is how much longer a request without records may become, at the worst, by being decoded.
	growth = 64

	// keptBuffer is the size to which a connection keeps its buffer for the next request.
	keptBuffer = 64 << 10
)

// listener accepts connections that are guarded.
type listener struct {
	net.Listener
	served *kversion.Versions
	log    *slog.Logger
	held   *semaphore.Weighted

	mu          sync.Mutex
	connections map[*conn]bool
	said        time.Time // when the log was told something
	unsaid      int       // what it was not told since then
}

// newListener returns a listener that guards the connections of another. log may be nil.
func newListener(plain net.Listener, served *kversion.Versions, log *slog.Logger) *listener {
	return &listener{
		Listener: plain, served: served, log: log, held: semaphore.NewWeighted(maxHeld), connections: map[*conn]bool{},
	}
}

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		plain, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := l.guard(plain)
		if l.enter(c) {
			return c, nil
		}
		l.refuse(plain, fmt.Errorf("there are %d connections already", maxConnections))
		_ = c.Close() // It was not wanted.
	}
}

// guard returns plain as kfake is to see it.
func (l *listener) guard(plain net.Conn) *conn {
	ctx, cancel := context.WithCancel(context.Background())
	c := &conn{
		Conn: plain, listener: l, reader: bufio.NewReader(plain),
		wait: func(n int64) error { return l.held.Acquire(ctx, n) },
	}
	c.leave = func() {
		cancel()
		l.exit(c)
	}
	c.acted()
	return c
}

// enter counts a connection, and reports whether there may be one more. If there are as many as there may be, it closes
// the one that has been idle for longest.
func (l *listener) enter(c *conn) bool {
	l.mu.Lock()
	var idle *conn
	if len(l.connections) >= maxConnections {
		if idle = l.idlest(); idle == nil {
			l.mu.Unlock()
			return false
		}
		delete(l.connections, idle)
	}
	l.connections[c] = true
	l.mu.Unlock()
	if idle != nil {
		_ = idle.Close() // It was not used.
	}
	return true
}

// idlest returns the connection that has been idle for longest, if that is idleEnough; nil otherwise. The caller holds
// mu.
func (l *listener) idlest() *conn {
	var idlest *conn
	since := time.Now().Add(-idleEnough).UnixNano()
	for c := range l.connections {
		if last := c.last.Load(); last <= since {
			idlest, since = c, last
		}
	}
	return idlest
}

// exit counts a connection less.
func (l *listener) exit(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.connections, c)
}

// refuse says why a connection is closed. Whoever floods the socket does not flood the log.
func (l *listener) refuse(c net.Conn, why error) {
	if l.log == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.said) >= time.Second {
		l.log.Warn("closed a connection to the embedded broker", slog.String("client", c.RemoteAddr().String()),
			slog.String("error", why.Error()), slog.Int("others_unsaid", l.unsaid))
		l.said, l.unsaid = now, 0
		return
	}
	l.unsaid++
}

// conn is a connection whose Read returns checked requests only. As kfake does, one goroutine reads and one writes.
type conn struct {
	net.Conn
	listener *listener
	reader   *bufio.Reader
	wait     func(bytes int64) error // until so much may be held
	leave    func()
	last     atomic.Int64 // when something was last sent or received, in nanoseconds since 1970

	buffer []byte // of the request, with its size before it
	rest   []byte // what of buffer has not been read
	held   int64
	err    error // that ended the reading
}

// acted notes that something is sent or received now.
func (c *conn) acted() { c.last.Store(time.Now().UnixNano()) }

// Read returns what is left of a request, or of the next one.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 && c.err == nil {
		if c.err = c.next(); c.err != nil {
			c.release()
			if refused(c.err) {
				c.listener.refuse(c.Conn, c.err)
			}
		}
	}
	if c.err != nil {
		return 0, c.err
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// refused reports whether err is about what the client sent, and not about a connection that ended.
func refused(err error) bool {
	var network net.Error
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.Canceled)
	return !ended && (!errors.As(err, &network) || errors.Is(err, os.ErrDeadlineExceeded))
}

// next reads and checks a request. kfake asks for it after it has taken over the one before, which is not held
// any longer.
func (c *conn) next() error {
	c.release()
	if err := c.SetReadDeadline(time.Now().Add(idleTime)); err != nil {
		return err
	}
	if _, err := c.reader.Peek(1); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return io.EOF // Nothing is wrong with being idle.
		}
		return err
	}
	c.acted()
	if err := c.SetReadDeadline(time.Now().Add(requestTime)); err != nil {
		return err
	}
	start, err := c.reader.Peek(sizeBytes)
	if err != nil {
		return fmt.Errorf("read the size of a request: %w", err)
	}
	size := binary.BigEndian.Uint32(start)
	if size < minRequest {
		return fmt.Errorf("a request of %d bytes: that is less than its header", size)
	}
	if start, err = c.reader.Peek(sizeBytes + minRequest); err != nil {
		return fmt.Errorf("read the header of a request: %w", err)
	}
	kind := int16(binary.BigEndian.Uint16(start[sizeBytes:]))
	if err := checkSize(size, kind); err != nil {
		return err
	}
	if err := c.hold(size, kind); err != nil {
		return err
	}
	limit := requestTime + time.Duration(size>>20)*time.Second
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if need := sizeBytes + int(size); cap(c.buffer) < need {
		c.buffer = make([]byte, need)
	} else {
		c.buffer = c.buffer[:need]
	}
	if _, err := io.ReadFull(c.reader, c.buffer); err != nil {
		return fmt.Errorf("read a request of %d bytes: %w", size, err)
	}
	if err := checkRequest(c.buffer[sizeBytes:], c.listener.served); err != nil {
		return err
	}
	c.rest = c.buffer
	return nil
}

// hold waits until a request may be held.
func (c *conn) hold(size uint32, kind int16) error {
	if size <= smallRequest {
		return nil
	}
	cost := int64(size)
	if kind != int16(kmsg.Produce) {
		cost *= growth
	}
	if err := c.wait(cost); err != nil {
		return err
	}
	c.held = cost
	return nil
}

// release lets go of the request that has been read.
func (c *conn) release() {
	if c.held > 0 {
		c.listener.held.Release(c.held)
		c.held = 0
	}
	if cap(c.buffer) > keptBuffer {
		c.buffer = nil
	}
}

// Write sends p, which may be long, to a client that goes on reading it.
func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for {
		if err := c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(written+writeChunk, len(p))])
		c.acted()
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// Close closes the connection. What waits to be held is woken up.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}
