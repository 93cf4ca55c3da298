package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// The kinds of keys in the journal: what their first byte is. Those of the group, the seal and the fence are one byte
// long. A release that does not know one of them does not own the partition: so none that knows no seal fires what was
// moved elsewhere.
const (
	rowKey      = 'r' // lane, NUL, id, incarnation
	positionKey = 'p' // topic id and number of an input partition
	groupKey    = 'g' // the consumer group that the partition belongs to
	sealKey     = 's' // what the partition is sealed for, or was
	fenceKey    = 'f'
	answerKey   = 'a' // the id of a request
	switchKey   = 'z' // lane: whether it is paused; the intake without a lane
	wishKey     = 'w' // the name of a wish to pause or resume, by whoever
	skipKey     = 'k' // the offset of an unreadable entry that is skipped
)

// version begins every value, so that a later release can tell what it reads.
const version = 1

// copyVersion begins the place of a local copy. It is another one when the copy has another form: a copy of a form that
// this release does not know is made anew.
const copyVersion = 3

// parkedVersion is that of a copy in which something was parked, which earlier releases cannot read. Another copy is
// left to them: an upgrade, or a step back, makes none anew.
const parkedVersion = 4

// errForeign says that an entry was not written by a release that this one knows.
var errForeign = errors.New("this release cannot read an entry of the journal")

// journalKey returns the key of a message: a tombstone of one incarnation leaves the next one alone.
func journalKey(ref node.Ref) []byte {
	key := append([]byte{rowKey}, ref.Lane...)
	key = append(append(key, 0), ref.ID...)
	return append(key, ref.Incarnation[:]...)
}

// readJournalKey is the reverse of journalKey.
func readJournalKey(key []byte) (node.Ref, error) {
	body := key[1:]
	if len(body) < len(uuid.UUID{}) {
		return node.Ref{}, fmt.Errorf("%w: the key of a message", errForeign)
	}
	names, drawn := body[:len(body)-len(uuid.UUID{})], body[len(body)-len(uuid.UUID{}):]
	for i, b := range names {
		if b == 0 {
			return node.Ref{
				Lane: string(names[:i]), ID: string(names[i+1:]), Incarnation: uuid.UUID(drawn),
			}, nil
		}
	}
	return node.Ref{}, fmt.Errorf("%w: the key of a message", errForeign)
}

// inputKey returns the key of the position of an input partition.
func inputKey(p node.Partition) []byte {
	key := append([]byte{positionKey}, p.TopicID[:]...)
	return binary.BigEndian.AppendUint32(key, uint32(p.Number))
}

// writePosition returns the value of a position.
func writePosition(p node.Position) []byte {
	value := binary.BigEndian.AppendUint32([]byte{version}, uint32(p.Epoch))
	return binary.BigEndian.AppendUint64(value, uint64(p.Offset))
}

func readPosition(value []byte) (node.Position, error) {
	if len(value) != 13 || value[0] != version {
		return node.Position{}, fmt.Errorf("%w: a position", errForeign)
	}
	return node.Position{
		Epoch: int32(binary.BigEndian.Uint32(value[1:])), Offset: int64(binary.BigEndian.Uint64(value[5:])),
	}, nil
}

// row is what is kept of a message.
type row struct {
	node.Message

	// due is when it falls due: its deadline, unless it was put off.
	due time.Time

	// bound, former and stopped are what earlier instructions have left behind, see node.Kept.
	bound, former, stopped bool

	// attempts is how many claims may have led to a publish, and behind whether it stands back. They are of this
	// process: whatever was not committed when it ended was not published.
	attempts int
	behind   bool

	// part is the name of the part on which it is parked; empty if it is not. It stands in the local copy alone: a new
	// owner tries each message once more.
	part string

	// head says that key, value and headers are left out, and apart where the local copy has them: see put.
	head, apart bool
}

// where returns where it waits.
func (r *row) where() node.Part { return node.Part{Lane: r.Lane, Name: r.part} }

// behead leaves out key, value and headers, as decodeHead does.
func (r *row) behead() { r.Key, r.Value, r.Headers, r.head = nil, nil, nil, true }

const (
	isBound = 1 << iota
	isFormer
	isStopped
	isBehind
	isApart  // in heads
	isParked // in heads
)

// room is as many bytes as a row has at most when it is encoded.
func (r *row) room() int {
	return r.Size() + len(r.ID) + len(r.Lane) + len(r.Series) + len(r.Origin.Topic) + 16*len(r.Headers) + 192
}

// encode writes a row. Null stays null, and empty empty.
func (r *row) encode() []byte {
	if r.head {
		panic("journal: a row without its content would be stored")
	}
	return r.write(make([]byte, 0, r.room()), 0, r.Key, r.Value, r.Headers)
}

// encodeHead writes a row without its key, value and headers, for decodeHead, and with what the local copy alone has.
func (r *row) encodeHead() []byte {
	var flags byte
	if r.apart {
		flags |= isApart
	}
	if r.part == "" {
		return r.write(nil, flags, nil, nil, nil)
	}
	e := encoder(r.write(nil, flags|isParked, nil, nil, nil))
	e.text(r.part)
	return e
}

// write appends a row with some content to what is empty.
func (r *row) write(to []byte, flags byte, key, value []byte, headers []node.Header) []byte {
	e := encoder(append(to, version))
	e.text(r.ID)
	e.text(r.Lane)
	e = append(e, r.Incarnation[:]...)
	e.instant(r.Deadline)
	e.instant(r.NotAfter)
	e = append(e, r.Line[:]...)
	e.text(r.Series)
	e.number(r.Sequence)
	e.instant(r.At)
	e.text(r.Origin.Topic)
	e.number(int64(r.Origin.Partition))
	e.number(r.Origin.Offset)
	e.bytes(key)
	e.bytes(value)
	e.number(int64(len(headers)))
	for _, h := range headers {
		e.text(h.Name)
		e.bytes(h.Value)
	}
	e.instant(r.due)
	for _, flag := range []struct {
		is  bool
		bit byte
	}{{r.bound, isBound}, {r.former, isFormer}, {r.stopped, isStopped}, {r.behind, isBehind}} {
		if flag.is {
			flags |= flag.bit
		}
	}
	e = append(e, flags)
	e.number(int64(r.attempts))
	return e
}

// decode reads a row. It keeps no part of data.
func decode(data []byte) (*row, error) { return decodeRow(data, true) }

// decodeHead reads a row without its key, value and headers, which most of what is decided does not need.
func decodeHead(data []byte) (*row, error) { return decodeRow(data, false) }

func decodeRow(data []byte, content bool) (*row, error) {
	if len(data) == 0 || data[0] != version {
		return nil, fmt.Errorf("%w: a message", errForeign)
	}
	d := decoder{rest: data[1:], skips: !content}
	r := &row{head: !content}
	r.ID, r.Lane = d.text(), d.text()
	copy(r.Incarnation[:], d.take(16))
	r.Deadline, r.NotAfter = d.instant(), d.instant()
	copy(r.Line[:], d.take(16))
	r.Series, r.Sequence, r.At = d.text(), d.number(), d.instant()
	r.Origin = node.Origin{Topic: d.text(), Partition: int32(d.number()), Offset: d.number()}
	r.Key, r.Value = d.bytes(), d.bytes()
	for range d.number() {
		if d.failed {
			break
		}
		if !content {
			d.take(d.number())
			d.bytes()
			continue
		}
		r.Headers = append(r.Headers, node.Header{Name: d.text(), Value: d.bytes()})
	}
	r.due = d.instant()
	parked := false
	if flags := d.take(1); len(flags) == 1 {
		r.bound, r.former = flags[0]&isBound != 0, flags[0]&isFormer != 0
		r.stopped, r.behind = flags[0]&isStopped != 0, flags[0]&isBehind != 0
		r.apart, parked = flags[0]&isApart != 0, flags[0]&isParked != 0
	}
	r.attempts = int(d.number())
	if parked && !content {
		r.part = d.text()
	}
	if d.failed || len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: a message", errForeign)
	}
	return r, nil
}

type encoder []byte

func (e *encoder) number(n int64) { *e = binary.AppendVarint(*e, n) }

func (e *encoder) text(s string) {
	e.number(int64(len(s)))
	*e = append(*e, s...)
}

// bytes writes the length plus one, and 0 for null.
func (e *encoder) bytes(b []byte) {
	if b == nil {
		e.number(0)
		return
	}
	e.number(int64(len(b)) + 1)
	*e = append(*e, b...)
}

// instant writes microseconds, after whether there is an instant at all.
func (e *encoder) instant(t time.Time) {
	if t.IsZero() {
		*e = append(*e, 0)
		return
	}
	*e = append(*e, 1)
	e.number(t.UnixMicro())
}

type decoder struct {
	rest   []byte
	failed bool
	skips  bool // bytes are passed over, and nothing is returned in their place
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.failed = true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) take(n int64) []byte {
	if n < 0 || n > int64(len(d.rest)) {
		d.failed = true
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) text() string { return string(d.take(d.number())) }

func (d *decoder) bytes() []byte {
	n := d.number()
	if n == 0 {
		return nil
	}
	data := d.take(n - 1)
	if d.skips {
		return nil
	}
	return append([]byte{}, data...)
}

func (d *decoder) instant() time.Time {
	if some := d.take(1); len(some) == 0 || some[0] == 0 {
		return time.Time{}
	}
	return time.UnixMicro(d.number()).UTC()
}

// writeJSON returns the value of an entry that is not read often enough to be packed: JSON behind the version. What is
// what an error calls it.
func writeJSON(what string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", what, err)
	}
	return append([]byte{version}, body...), nil
}

// readJSON is the reverse of writeJSON.
func readJSON[T any](what string, value []byte) (*T, error) {
	if len(value) == 0 || value[0] != version {
		return nil, fmt.Errorf("%w: %s", errForeign, what)
	}
	v := new(T)
	if err := json.Unmarshal(value[1:], v); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errForeign, what, err)
	}
	return v, nil
}
