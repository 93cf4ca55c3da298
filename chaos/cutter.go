package chaos

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// cutter stands between a node and Postgres and understands enough of what they say to lose exactly one reply: that to
// the next statement of a kind. The server executes and commits it; the node sees its connection die, and can't know.
// A proxy that acts on bytes, such as toxiproxy, can't do that. It also tells which rows the node has asked to delete,
// once the server has done so, which nobody else can: a delete that finds nothing leaves no trace in the log.
//
//	node    Bind, Execute, Sync ------------------>
//	cutter          sees that it is the statement  ------------------> Postgres
//	cutter          <----- BindComplete, rows, CommandComplete, ReadyForQuery: committed
//	node    <- connection closed
type cutter struct {
	listener net.Listener
	upstream func() string
	deleted  func(deletion) // is told of deletes that were executed

	mu        sync.Mutex
	incisions []*incision
	conns     map[net.Conn]struct{}
	waits     sync.WaitGroup
}

// incision is a reply to be lost.
type incision struct {
	statement string // how the statement begins, in one line
	made      chan struct{}
}

// deletion is a delete that the server has executed: what was to go, when the server was asked, and when it had
// committed.
type deletion struct {
	ids, topics  []string
	incarnations [][16]byte
	asked, done  time.Time
}

// The statements of the store's adapter whose replies can be lost. A take sends two batches of statements, each with
// one reply: the first begins with the locks of its partitions, and changes nothing; the second inserts, if there is
// anything to insert, moves the positions, and commits.
const (
	beginReply  = "SELECT u.place, p.mark FROM unnest"
	insertReply = "INSERT INTO messages"
	moveReply   = "INSERT INTO positions"
	claimReply  = "UPDATE messages SET attempts = attempts + 1"
	deleteReply = "DELETE FROM messages"
	resetReply  = "UPDATE messages SET readied_at = NULL"
)

// newCutter listens on a port of its own. deleted is told of each delete, by one goroutine for each connection.
func newCutter(ctx context.Context, upstream func() string, deleted func(deletion)) (*cutter, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for Postgres: %w", err)
	}
	c := &cutter{listener: l, upstream: upstream, deleted: deleted, conns: map[net.Conn]struct{}{}}
	c.waits.Go(c.accept)
	return c, nil
}

func (c *cutter) port() int { return c.listener.Addr().(*net.TCPAddr).Port }

// cut loses the reply to the next statement that begins so. The channel is closed when that has happened.
func (c *cutter) cut(statement string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := &incision{statement, make(chan struct{})}
	c.incisions = append(c.incisions, i)
	return i.made
}

// spare forgets the replies that were to be lost and have not been.
func (c *cutter) spare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.incisions = nil
}

// close ends all connections.
func (c *cutter) close() {
	_ = c.listener.Close() // it only listens
	c.mu.Lock()
	for conn := range c.conns {
		_ = conn.Close() // both ends hear of it
	}
	c.mu.Unlock()
	c.waits.Wait()
}

func (c *cutter) accept() {
	for {
		node, err := c.listener.Accept()
		if err != nil {
			return // it is closed
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", c.upstream())
		if err != nil {
			_ = node.Close() // Postgres is away
			continue
		}
		c.mu.Lock()
		c.conns[node], c.conns[server] = struct{}{}, struct{}{}
		c.mu.Unlock()
		s := &session{cutter: c, node: node, server: server, statements: map[string]string{}, types: pgtype.NewMap()}
		c.waits.Go(s.requests)
		c.waits.Go(s.replies)
	}
}

// session is one connection of a node.
type session struct {
	cutter       *cutter
	node, server net.Conn

	types      *pgtype.Map
	statements map[string]string // the text of each prepared statement
	bound      string            // the text of the statement that is about to be executed
	deletes    *deletion         // what it deletes, if it does
	severed    atomic.Pointer[incision]
	deleting   atomic.Pointer[deletion]
}

// end closes both sides.
func (s *session) end() {
	_, _ = s.node.Close(), s.server.Close() // what has not been sent is to be lost
	s.cutter.mu.Lock()
	defer s.cutter.mu.Unlock()
	delete(s.cutter.conns, s.node)
	delete(s.cutter.conns, s.server)
}

// requests passes on what the node says, and looks for the statement.
func (s *session) requests() {
	defer s.end()
	in := bufio.NewReader(s.node)
	startup, err := frame(in, 0)
	if err != nil {
		return
	}
	if _, err := s.server.Write(startup); err != nil {
		return
	}
	for {
		message, err := frame(in, 1)
		if err != nil {
			return
		}
		s.look(message)
		if _, err := s.server.Write(message); err != nil {
			return
		}
	}
}

// look follows the extended protocol: a statement is parsed, later bound, and then executed.
func (s *session) look(message []byte) {
	switch body := message[5:]; message[0] {
	case 'P':
		var parse pgproto3.Parse
		if parse.Decode(body) == nil {
			s.statements[parse.Name] = strings.Join(strings.Fields(parse.Query), " ")
		}
	case 'B':
		var bind pgproto3.Bind
		if bind.Decode(body) == nil {
			s.bound = s.statements[bind.PreparedStatement]
			s.deletes = nil
			if strings.HasPrefix(s.bound, deleteReply) {
				s.deletes = s.deletion(&bind)
			}
		}
	case 'E':
		s.deleting.Store(s.deletes)
		s.cutter.mu.Lock()
		defer s.cutter.mu.Unlock()
		for i, incision := range s.cutter.incisions {
			if strings.HasPrefix(s.bound, incision.statement) {
				s.cutter.incisions = append(s.cutter.incisions[:i:i], s.cutter.incisions[i+1:]...)
				s.severed.Store(incision)
				return
			}
		}
	}
}

// deletion reads what a delete of the store's adapter is to delete: its first three arguments are arrays of ids,
// topics and incarnations. nil if it is another statement.
func (s *session) deletion(bind *pgproto3.Bind) *deletion {
	d := &deletion{asked: time.Now()}
	for i, argument := range []struct {
		oid  uint32
		into any
	}{{pgtype.TextArrayOID, &d.ids}, {pgtype.TextArrayOID, &d.topics}, {pgtype.UUIDArrayOID, &d.incarnations}} {
		format := int16(pgtype.TextFormatCode)
		switch formats := bind.ParameterFormatCodes; {
		case len(formats) == 1:
			format = formats[0] // of all arguments
		case i < len(formats):
			format = formats[i]
		}
		if i >= len(bind.Parameters) ||
			s.types.Scan(argument.oid, format, bind.Parameters[i], argument.into) != nil {
			return nil
		}
	}
	if len(d.topics) != len(d.ids) || len(d.incarnations) != len(d.ids) {
		return nil
	}
	return d
}

// executed follows what the server says about a delete: that it is complete, and after the commit that it is ready for
// the next statement; or that it has failed.
func (s *session) executed(message []byte) {
	d := s.deleting.Load()
	switch {
	case d == nil:
	case message[0] == 'E':
		s.deleting.Store(nil)
	case message[0] == 'Z':
		s.deleting.Store(nil)
		d.done = time.Now()
		s.cutter.deleted(*d)
	}
}

// replies passes on what the server says, except the reply that is to be lost: it waits until the server says that it
// is ready for the next statement, which it does after the commit, and closes the connection.
func (s *session) replies() {
	defer s.end()
	in := bufio.NewReader(s.server)
	for {
		message, err := frame(in, 1)
		if err != nil {
			return
		}
		s.executed(message)
		if incision := s.severed.Load(); incision != nil {
			if message[0] == 'Z' {
				close(incision.made)
				return
			}
			continue
		}
		if _, err := s.node.Write(message); err != nil {
			return
		}
	}
}

// frame reads one message with its length, which comes after a type of one byte, or of none for the first message.
func frame(in io.Reader, kind int) ([]byte, error) {
	const most = 64 << 20
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head[kind:]))
	if length < 4 || length > most {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	message := make([]byte, kind+length)
	copy(message, head)
	_, err := io.ReadFull(in, message[len(head):])
	return message, err
}
