package postgres

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
	"chronos/node/store/headers"
)

// columns are the messages of insertStatement and of those that are like it, a slice for each column. What most
// messages do not have is in slices that end with the last one that has it: nil, for nothing, where none has.
type columns struct {
	ids, lanes       []string
	incarnations     []pgtype.UUID
	deadlines        []time.Time
	claimed          []bool
	sourceTopics     []pgtype.Text
	sourcePartitions []pgtype.Int4
	sourceOffsets    []pgtype.Int8
	sizes            []int32
	headers          []string
	keys, values     [][]byte

	dues          []pgtype.Timestamptz // where they are not the deadlines
	notAfters     []pgtype.Timestamptz
	bound, former []bool
	series        []pgtype.Text
	sequences     []pgtype.Int8
	occurs        []pgtype.Timestamptz
	stopped       []bool
	lines         []pgtype.UUID
}

func newColumns(n int) *columns {
	return &columns{
		ids: make([]string, 0, n), lanes: make([]string, 0, n), incarnations: make([]pgtype.UUID, 0, n),
		deadlines: make([]time.Time, 0, n), claimed: make([]bool, 0, n), sourceTopics: make([]pgtype.Text, 0, n),
		sourcePartitions: make([]pgtype.Int4, 0, n), sourceOffsets: make([]pgtype.Int8, 0, n),
		sizes: make([]int32, 0, n), headers: make([]string, 0, n), keys: make([][]byte, 0, n),
		values: make([][]byte, 0, n),
	}
}

// add adds a message: its content is that of m, and the rest as kept says.
func (c *columns) add(m *node.Message, kept *node.Kept, claimed bool) {
	at, known := len(c.ids), m.Origin != node.Origin{}
	c.ids = append(c.ids, m.ID)
	c.lanes = append(c.lanes, m.Lane)
	c.incarnations = append(c.incarnations, uuidOf(kept.Incarnation))
	c.deadlines = append(c.deadlines, kept.Deadline)
	c.claimed = append(c.claimed, claimed)
	c.sourceTopics = append(c.sourceTopics, pgtype.Text{String: m.Origin.Topic, Valid: known})
	c.sourcePartitions = append(c.sourcePartitions, pgtype.Int4{Int32: m.Origin.Partition, Valid: known})
	c.sourceOffsets = append(c.sourceOffsets, pgtype.Int8{Int64: m.Origin.Offset, Valid: known})
	c.sizes = append(c.sizes, int32(min(m.Size(), math.MaxInt32)))
	c.headers = append(c.headers, string(headers.Encode(m.Headers)))
	c.keys = append(c.keys, m.Key)
	c.values = append(c.values, m.Value)
	if !kept.Due.Equal(kept.Deadline) {
		c.dues = put(c.dues, at, pgtype.Timestamptz{Time: kept.Due, Valid: true})
	}
	if !m.NotAfter.IsZero() {
		c.notAfters = put(c.notAfters, at, pgtype.Timestamptz{Time: instant(m.NotAfter), Valid: true})
	}
	if kept.Bound {
		c.bound = put(c.bound, at, true)
	}
	if kept.Former {
		c.former = put(c.former, at, true)
	}
	if m.Recurs() {
		c.series = put(c.series, at, pgtype.Text{String: m.Series, Valid: true})
		c.sequences = put(c.sequences, at, pgtype.Int8{Int64: m.Sequence, Valid: true})
		c.occurs = put(c.occurs, at, pgtype.Timestamptz{Time: instant(m.At), Valid: true})
	}
	if kept.Stopped {
		c.stopped = put(c.stopped, at, true)
	}
	if m.Line != uuid.Nil {
		c.lines = put(c.lines, at, uuidOf(m.Line))
	}
}

// put sets an element beyond the end of a slice, with zero values up to it.
func put[T any](list []T, at int, value T) []T {
	return append(append(list, make([]T, at-len(list))...), value)
}

// plain reports whether no message has what most have not.
func (c *columns) plain() bool {
	return c.dues == nil && c.notAfters == nil && c.bound == nil && c.former == nil &&
		c.series == nil && c.stopped == nil && c.lines == nil
}

// few is how many of contents are about what most messages have not.
const few = 9

// contents returns the arguments that say what a row has beside its name.
func (c *columns) contents() []any {
	return []any{
		c.incarnations, c.deadlines, c.claimed, c.sourceTopics, c.sourcePartitions, c.sourceOffsets, c.sizes,
		c.headers, c.keys, c.values, c.dues, c.notAfters, c.bound, c.former,
		c.series, c.sequences, c.occurs, c.stopped, c.lines,
	}
}

// moves are positions as the arguments of statements. turns are those of the positions that there are.
type moves struct {
	topics  []pgtype.UUID
	numbers []int32
	names   []string
	turns   []int64
	epochs  []int32
	offsets []int64
}

func (m *moves) add(partition node.Partition, turn int64, to node.Position) {
	m.topics = append(m.topics, uuidOf(partition.TopicID))
	m.numbers = append(m.numbers, partition.Number)
	m.names = append(m.names, partition.Topic)
	m.turns = append(m.turns, turn)
	m.epochs = append(m.epochs, to.Epoch)
	m.offsets = append(m.offsets, to.Offset)
}

// steps returns the statements that move the positions, of which there may be none.
func (m *moves) steps() []step {
	if len(m.topics) == 0 {
		return nil
	}
	next := make([]int64, len(m.turns))
	for i, turn := range m.turns {
		next[i] = turn + 1
	}
	return []step{
		{statement: moveStatement, arguments: []any{m.topics, m.numbers, next, m.epochs, m.offsets}},
		{statement: forgetStatement, arguments: []any{m.topics, m.numbers, m.turns}},
	}
}

// create returns the statements that give these positions to partitions that have none, around one that locks the
// partitions.
func (m *moves) create(lock step) []step {
	if len(m.topics) == 0 {
		return []step{lock}
	}
	return []step{
		{statement: addPartitionsStatement, arguments: []any{m.topics, m.numbers, m.names}},
		lock,
		{statement: addPositionsStatement, arguments: []any{m.topics, m.numbers, m.epochs, m.offsets}},
	}
}

// lock returns the statement that locks these partitions.
func (m *moves) lock() step {
	return step{statement: lockPartitionsStatement, arguments: []any{m.topics, m.numbers}}
}

// comparePartitions is the order in which partitions are locked, which is that of their key.
func comparePartitions(a, b node.Partition) int {
	return cmp.Or(bytes.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Number, b.Number))
}

// names are refs as arguments, a slice for each part, and where in the batch they are.
type names struct {
	ids, lanes   []string
	incarnations []pgtype.UUID
	places       map[node.Ref]int
}

func newNames(n int) *names {
	return &names{
		ids: make([]string, 0, n), lanes: make([]string, 0, n), incarnations: make([]pgtype.UUID, 0, n),
		places: make(map[node.Ref]int, n),
	}
}

// add takes in a ref, unless the table can have no such row, and returns whether it did.
func (n *names) add(place int, ref node.Ref) bool {
	if !isStorable(node.MessageID{ID: ref.ID, Lane: ref.Lane}) {
		return false
	}
	n.ids = append(n.ids, ref.ID)
	n.lanes = append(n.lanes, ref.Lane)
	n.incarnations = append(n.incarnations, uuidOf(ref.Incarnation))
	n.places[ref] = place
	return true
}

// isStorable reports whether the server can read a name. Statements are not asked for others: they would fail instead
// of finding nothing.
func isStorable(id node.MessageID) bool { return isText(id.ID) && isText(id.Lane) }

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// earliest and latest are the ends of what an instant may be. PostgreSQL goes further, but not as far as Go, whose
// instants would wrap round on the way.
func earliest() time.Time { return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC) }
func latest() time.Time   { return time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC) }

// instant returns t as an argument: the nearest instant that a row may have.
func instant(t time.Time) time.Time {
	switch {
	case t.Before(earliest()):
		return earliest()
	case t.After(latest()):
		return latest()
	}
	return t
}

// recurrence returns what a row says of its series.
func recurrence(series pgtype.Text, sequence pgtype.Int8, at pgtype.Timestamptz) node.Recurrence {
	return node.Recurrence{Series: series.String, Sequence: sequence.Int64, At: timeOf(at)}
}

// timeOf returns the instant that a row has, and the zero value where it has none.
func timeOf(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// expiry returns when a claim that is made now expires.
func expiry(now time.Time, hold time.Duration) time.Time {
	return now.Add(hold).Truncate(time.Microsecond)
}

func uuidOf(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
