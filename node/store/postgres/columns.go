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

// columns are the messages of insertStatement, a slice for each column.
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

func (c *columns) add(m *node.Message, claimed bool) {
	known := m.Origin != node.Origin{}
	c.ids = append(c.ids, m.ID)
	c.lanes = append(c.lanes, m.Lane)
	c.incarnations = append(c.incarnations, uuidOf(m.Incarnation))
	c.deadlines = append(c.deadlines, m.Deadline)
	c.claimed = append(c.claimed, claimed)
	c.sourceTopics = append(c.sourceTopics, pgtype.Text{String: m.Origin.Topic, Valid: known})
	c.sourcePartitions = append(c.sourcePartitions, pgtype.Int4{Int32: m.Origin.Partition, Valid: known})
	c.sourceOffsets = append(c.sourceOffsets, pgtype.Int8{Int64: m.Origin.Offset, Valid: known})
	c.sizes = append(c.sizes, int32(min(m.Size(), math.MaxInt32)))
	c.headers = append(c.headers, string(headers.Encode(m.Headers)))
	c.keys = append(c.keys, m.Key)
	c.values = append(c.values, m.Value)
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

// expiry returns when a claim that is made now expires.
func expiry(now time.Time, hold time.Duration) time.Time {
	return now.Add(hold).Truncate(time.Microsecond)
}

func uuidOf(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
