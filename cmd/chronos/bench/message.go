package bench

import (
	"bytes"
	"strconv"
)

// MarkHeader is the header of the messages of a run that says which message it is, beside the value, so that one whose
// value is damaged can be told from one that is missing. A service relays it as it is.
const MarkHeader = "benchMessage"

// Submission is a message as it is sent.
type Submission struct {
	Number   int
	Route    int
	ID       string
	Deadline string // as the header says it
	Key      []byte
	Value    []byte
	Mark     []byte // the value of MarkHeader
}

// deadlineForm is how a deadline is written: every service that knows the header reads this.
const deadlineForm = "2006-01-02T15:04:05.000Z"

// Message returns message i.
func (p *Plan) Message(i int) Submission {
	mark := p.mark(i)
	return Submission{
		Number: i, Route: p.Route(i), ID: p.ID(i), Deadline: p.Deadline(i).UTC().Format(deadlineForm),
		Key: p.Key(i), Value: p.value(i, mark), Mark: mark,
	}
}

// mark returns what a message says about itself: "RUN.NUMBER", at most MinSize bytes with the blank behind it.
func (p *Plan) mark(i int) []byte {
	return strconv.AppendInt(append([]byte(p.load.Run), '.'), int64(i), 10)
}

// value returns the value of a message: its mark, a blank, and letters from the pool.
func (p *Plan) value(i int, mark []byte) []byte {
	size := p.Size(i)
	value := append(append(make([]byte, 0, size), mark...), ' ')
	for from := p.filled(i); len(value) < size; from = 0 {
		value = append(value, p.pool[from:min(from+size-len(value), len(p.pool))]...)
	}
	return value
}

// filled returns where in the pool the filling of a message begins.
func (p *Plan) filled(i int) int { return int(p.mixed(i, drawFilling) % uint64(len(p.pool))) }

// isValue reports whether a value is that of message i, byte for byte, without making it.
func (p *Plan) isValue(i int, mark, value []byte) bool {
	if len(value) != p.Size(i) || !bytes.HasPrefix(value, mark) || value[len(mark)] != ' ' {
		return false
	}
	rest := value[len(mark)+1:]
	for from := p.filled(i); len(rest) > 0; from = 0 {
		part := p.pool[from:min(from+len(rest), len(p.pool))]
		if !bytes.HasPrefix(rest, part) {
			return false
		}
		rest = rest[len(part):]
	}
	return true
}

// filling returns the pool: 1 MiB of letters, digits and two signs. They are text, because a service may take nothing
// else; and they are drawn, and many more than a compressor looks back on, because a value of one letter would make
// Kafka look better than it is.
func filling(seed uint64) []byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	draws := source{mix(seed)}
	pool := make([]byte, 0, 1<<20)
	for len(pool) < cap(pool) {
		for bits, n := draws.Uint64(), 0; n < 8; n++ {
			pool = append(pool, alphabet[bits&63])
			bits >>= 6
		}
	}
	return pool
}

// number returns the number that a mark, or the beginning of a value, names, if it is of this run.
func (p *Plan) number(mark []byte) (int, bool) {
	rest, ours := bytes.CutPrefix(mark, []byte(p.load.Run+"."))
	if !ours {
		return 0, false
	}
	digits, _, _ := bytes.Cut(rest[:min(len(rest), 20)], []byte{' '})
	i, err := strconv.Atoi(string(digits))
	return i, err == nil && i >= 0 && i < p.count
}
