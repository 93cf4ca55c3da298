package chaos

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"chronos/chaos/servers"
)

// answerCutter stands between a node and its brokers, and understands enough of what they say to lose exactly one
// answer, or exactly one request, of a kind: above all that to the end of a transaction. A proxy that acts on bytes
// hits a commit by chance.
//
//	node    EndTxn --------------->  cutter  ---------------> broker: committed
//	        connection closed <----  cutter  <--------------- the answer
//
// or, where it is the request that is lost,
//
//	node    EndTxn --------------->  cutter
//	        connection closed <----
//
// The node can't tell which of the two it was. It asks again, by another connection, and is told; unless all its ways
// to the brokers are shut from then on, until the incision is taken back.
type answerCutter struct {
	mu        sync.Mutex
	incisions []*answerIncision
	lost      map[string]int // how many there were, by what was lost
	shut      int            // so many incisions keep all ways shut
	conns     map[net.Conn]struct{}
	listeners []net.Listener
	waits     sync.WaitGroup
}

// answerIncision is something to be lost.
type answerIncision struct {
	request int16 // the API key of Kafka's protocol
	never   bool  // the request itself is lost, and not its answer
	shuts   bool  // and then the node reaches no broker any more
	text    string

	done bool // it has happened; guarded by the cutter's mu
}

// The requests of Kafka's protocol by their API keys: records are appended, a transactional id is taken over, and a
// transaction ends.
const (
	produceRequest        = 0
	initProducerIDRequest = 22
	endTxnRequest         = 26
)

func newAnswerCutter() *answerCutter {
	return &answerCutter{lost: map[string]int{}, conns: map[net.Conn]struct{}{}}
}

// open opens a way to a broker, and returns its port.
func (c *answerCutter) open(ctx context.Context, broker string) (port int, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", servers.Local(0))
	if err != nil {
		return 0, fmt.Errorf("listen for a broker: %w", err)
	}
	c.listeners = append(c.listeners, l)
	c.waits.Go(func() { c.accept(l, broker) })
	return l.Addr().(*net.TCPAddr).Port, nil
}

// cut has the next request of a kind, or its answer, be lost. forget takes that back if it has not happened, and opens
// the ways that it has shut.
func (c *answerCutter) cut(i *answerIncision) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.incisions = append(c.incisions, i)
	return func() {
		c.take(func(other *answerIncision) bool { return other == i })
		c.mu.Lock()
		defer c.mu.Unlock()
		if i.done && i.shuts {
			c.shut--
		}
	}
}

// take returns the first incision that is wanted, which is none to come any more; nil if there is none.
func (c *answerCutter) take(wanted func(*answerIncision) bool) *answerIncision {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.incisions, wanted)
	if at < 0 {
		return nil
	}
	i := c.incisions[at]
	c.incisions = slices.Delete(c.incisions, at, at+1)
	return i
}

// count returns how many were lost of a kind.
func (c *answerCutter) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost[text]
}

// close ends all connections. A nil one has none.
func (c *answerCutter) close() {
	if c == nil {
		return
	}
	for _, l := range c.listeners {
		_ = l.Close() // it only listens
	}
	c.mu.Lock()
	for conn := range c.conns {
		_ = conn.Close() // both ends hear of it
	}
	c.mu.Unlock()
	c.waits.Wait()
}

func (c *answerCutter) accept(l net.Listener, broker string) {
	for {
		node, err := l.Accept()
		if err != nil {
			return // it is closed
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", broker)
		if err != nil {
			_ = node.Close() // the broker is away
			continue
		}
		s := &answerSession{cutter: c, node: node, server: server}
		if !s.begin() {
			_, _ = node.Close(), server.Close() // nobody is to hear of it
			continue
		}
		c.waits.Go(s.requests)
		c.waits.Go(s.answers)
	}
}

// answerSession is one connection of a node to a broker.
type answerSession struct {
	cutter       *answerCutter
	node, server net.Conn
	severed      atomic.Pointer[severed]
}

// severed is an answer that is to be lost: its number in this connection.
type severed struct {
	*answerIncision

	number uint32
}

// begin takes note of the connection, and reports whether there may be one.
func (s *answerSession) begin() bool {
	s.cutter.mu.Lock()
	defer s.cutter.mu.Unlock()
	if s.cutter.shut > 0 {
		return false
	}
	s.cutter.conns[s.node], s.cutter.conns[s.server] = struct{}{}, struct{}{}
	return true
}

// end closes both sides.
func (s *answerSession) end() {
	_, _ = s.node.Close(), s.server.Close() // what has not been sent is to be lost
	s.cutter.mu.Lock()
	defer s.cutter.mu.Unlock()
	delete(s.cutter.conns, s.node)
	delete(s.cutter.conns, s.server)
}

// made takes note that something was lost, and shuts all ways if it is to be so.
func (s *answerSession) made(i *answerIncision) {
	c := s.cutter
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[i.text]++
	i.done = true
	if i.shuts {
		c.shut++
		for conn := range c.conns {
			_ = conn.Close() // both ends hear of it
		}
	}
}

// requests passes on what the node says. A request has its API key, its version and its number after the length. One
// answer is lost at most: then the connection is over.
func (s *answerSession) requests() {
	defer s.end()
	in := bufio.NewReader(s.node)
	for {
		request, err := kafkaFrame(in, 8)
		if err != nil {
			return
		}
		key, number := int16(binary.BigEndian.Uint16(request[4:])), binary.BigEndian.Uint32(request[8:])
		if s.severed.Load() == nil {
			i := s.cutter.take(func(i *answerIncision) bool { return i.request == key })
			if i != nil && i.never {
				s.made(i)
				return
			}
			if i != nil {
				s.severed.Store(&severed{i, number}) // before the broker can answer
			}
		}
		if _, err := s.server.Write(request); err != nil {
			return
		}
	}
}

// answers passes on what the broker says, up to the answer that is to be lost. An answer has its number after the
// length.
func (s *answerSession) answers() {
	defer s.end()
	in := bufio.NewReader(s.server)
	for {
		answer, err := kafkaFrame(in, 4)
		if err != nil {
			return
		}
		if cut := s.severed.Load(); cut != nil && cut.number == binary.BigEndian.Uint32(answer[4:]) {
			s.made(cut.answerIncision)
			return
		}
		if _, err := s.node.Write(answer); err != nil {
			return
		}
	}
}

// kafkaFrame reads one request or answer, with the length that it begins with. It has so many bytes at least.
func kafkaFrame(in io.Reader, least int) ([]byte, error) {
	const most = 128 << 20
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head[:]))
	if length < least || length > most {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	message := make([]byte, len(head)+length)
	copy(message, head[:])
	_, err := io.ReadFull(in, message[len(head):])
	return message, err
}
