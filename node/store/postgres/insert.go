package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
	"chronos/node/store/headers"
)

const (
	// batchRows and batchBytes bound one statement. More rows are not faster, they only hold locks for longer.
	batchRows  = 1000
	batchBytes = 8 << 20

	// insertTries is how often a message is inserted that is not, because of a row that is gone when looked up.
	insertTries = 10
)

// Insert implements node.Store.
func (s *Store) Insert(
	ctx context.Context, request node.InsertRequest,
) ([]node.InsertResult, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("insert %d messages: %w", len(request.Messages), err)
	}
	in := insert{store: s, request: request, results: make([]node.InsertResult, len(request.Messages))}
	var order []int // of the rows, by id and topic; the messages of one name stay as they are
	for i := range request.Messages {
		if why := refusal(&request.Messages[i].Message); why != "" {
			in.refuse(i, why)
		} else {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &request.Messages[a], &request.Messages[b]
		return cmp.Or(strings.Compare(x.ID, y.ID), strings.Compare(x.Topic, y.Topic))
	})
	for len(order) > 0 {
		n, size := 0, 0
		for n < len(order) && n < batchRows && size < batchBytes {
			size += request.Messages[order[n]].Size()
			n++
		}
		if err := in.batch(ctx, order[:n]); err != nil {
			return nil, fmt.Errorf("insert %d messages: %w", len(request.Messages), err)
		}
		order = order[n:]
	}
	return in.results, nil
}

// insert is one call of Insert. Messages are named by their places in the request.
type insert struct {
	store   *Store
	request node.InsertRequest
	results []node.InsertResult
}

// batch stores the messages at places, which are in the order of the rows, and notes their results.
//
// Between the insert that met a row and the lookup of that row there is a moment:
//
//	this call                          another session
//	insert x: there is a row already
//	                                   delete the row
//	look x up: there is none
//
// Nothing was in the way of x then for good, so it is inserted again.
func (in *insert) batch(ctx context.Context, places []int) error {
	for range insertTries {
		rest, err := in.insert(ctx, places)
		if isRefusal(err) {
			return in.isolate(ctx, places, err)
		}
		if err == nil && len(rest) > 0 {
			rest, err = in.lookup(ctx, rest)
		}
		if err != nil || len(rest) == 0 {
			return err
		}
		places = rest
	}
	return fmt.Errorf("%d ids come and go: not inserted after %d tries", len(places), insertTries)
}

// isolate stores the messages of a batch that the server has refused, but for those that it refuses alone.
func (in *insert) isolate(ctx context.Context, places []int, err error) error {
	if answer, is := errors.AsType[*pgconn.PgError](err); is && len(places) == 1 {
		in.refuse(places[0], fmt.Sprintf("PostgreSQL refuses it: %s (SQLSTATE %s)", answer.Message, answer.Code))
		return nil
	}
	half := len(places) / 2
	if err := in.batch(ctx, places[:half]); err != nil {
		return err
	}
	return in.batch(ctx, places[half:])
}

// insertedRow is a row of insertStatement.
type insertedRow struct {
	ref       node.Ref
	readiedAt pgtype.Timestamptz
}

// insert executes the insert, notes the results of what was inserted, and returns the places of what was not.
func (in *insert) insert(ctx context.Context, places []int) (rest []int, err error) {
	c := newColumns(len(places))
	for _, at := range places {
		c.add(&in.request.Messages[at])
	}
	rows, err := collect(ctx, in.store, func(rows pgx.Rows, r *insertedRow) error {
		return rows.Scan(&r.ref.ID, &r.ref.Topic, &r.ref.Incarnation, &r.readiedAt)
	}, insertStatement, uuidOf(in.request.Node), c.ids, c.topics, c.incarnations, c.deadlines, c.readied,
		c.sizes, c.headers, c.keys, c.values)
	if err != nil {
		return nil, err
	}
	inserted := make(map[node.Ref]*insertedRow, len(rows))
	for i := range rows {
		inserted[rows[i].ref] = &rows[i]
	}
	for _, at := range places {
		ref := in.request.Messages[at].Ref()
		r := inserted[ref]
		if r == nil {
			rest = append(rest, at)
			continue
		}
		delete(inserted, ref) // another message of this name comes after it
		in.results[at].Outcome = node.Inserted
		if r.readiedAt.Valid {
			in.results[at].Claim = node.Claim{
				Ref: ref, ReadiedAt: r.readiedAt.Time.UTC(), ReadiedBy: in.request.Node,
			}
		}
	}
	return rest, nil
}

// foundRow is a row of lookupStatement.
type foundRow struct {
	place       int
	incarnation uuid.UUID
	readiedAt   pgtype.Timestamptz
	readiedBy   pgtype.UUID
}

// lookup notes the results of messages that a row was in the way of, and returns the places of those for which
// there is none now.
func (in *insert) lookup(ctx context.Context, places []int) (rest []int, err error) {
	ids := make([]string, len(places))
	topics := make([]string, len(places))
	for i, at := range places {
		ids[i], topics[i] = in.request.Messages[at].ID, in.request.Messages[at].Topic
	}
	rows, err := collect(ctx, in.store, func(rows pgx.Rows, r *foundRow) error {
		return rows.Scan(&r.place, &r.incarnation, &r.readiedAt, &r.readiedBy)
	}, lookupStatement, ids, topics)
	if err != nil {
		return nil, err
	}
	found := make([]*foundRow, len(places))
	for i := range rows {
		found[rows[i].place-1] = &rows[i]
	}
	for i, at := range places {
		r, ref := found[i], in.request.Messages[at].Ref()
		switch {
		case r == nil:
			rest = append(rest, at)
		case r.incarnation != ref.Incarnation:
			in.results[at].Outcome = node.Duplicate
		default:
			in.results[at].Outcome = node.Inserted
			if r.readiedBy.Valid && r.readiedBy.Bytes == in.request.Node {
				in.results[at].Claim = node.Claim{
					Ref: ref, ReadiedAt: r.readiedAt.Time.UTC(), ReadiedBy: in.request.Node,
				}
			}
		}
	}
	return rest, nil
}

func (in *insert) refuse(at int, why string) {
	in.results[at] = node.InsertResult{Outcome: node.Refused, Reason: why}
}

// columns are the arguments of insertStatement, a slice for each column.
type columns struct {
	ids, topics  []string
	incarnations []pgtype.UUID
	deadlines    []time.Time
	readied      []bool
	sizes        []int32
	headers      []string
	keys, values [][]byte
}

func newColumns(n int) *columns {
	return &columns{
		ids: make([]string, 0, n), topics: make([]string, 0, n), incarnations: make([]pgtype.UUID, 0, n),
		deadlines: make([]time.Time, 0, n), readied: make([]bool, 0, n), sizes: make([]int32, 0, n),
		headers: make([]string, 0, n), keys: make([][]byte, 0, n), values: make([][]byte, 0, n),
	}
}

func (c *columns) add(m *node.Insertion) {
	c.ids = append(c.ids, m.ID)
	c.topics = append(c.topics, m.Topic)
	c.incarnations = append(c.incarnations, uuidOf(m.Incarnation))
	c.deadlines = append(c.deadlines, m.Deadline)
	c.readied = append(c.readied, m.Readied)
	c.sizes = append(c.sizes, int32(min(m.Size(), math.MaxInt32)))
	c.headers = append(c.headers, string(headers.Encode(m.Headers)))
	c.keys = append(c.keys, m.Key)
	c.values = append(c.values, m.Value)
}

// The bounds of what the table holds.
const (
	maxIDRunes    = 128
	maxTopicRunes = 249
)

// earliest and latest are the ends of what an instant may be. PostgreSQL goes further, but not as far as Go, whose
// instants would wrap round on the way.
func earliest() time.Time { return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC) }
func latest() time.Time   { return time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC) }

// refusal returns why the table can never hold m, empty if it perhaps can: the server decides. What is told here
// need not be found out by sending ever smaller batches.
func refusal(m *node.Message) string {
	switch id := (node.MessageID{ID: m.ID, Topic: m.Topic}); {
	case !isText(m.ID):
		return "its id is not UTF-8 without NUL"
	case utf8.RuneCountInString(m.ID) > maxIDRunes:
		return fmt.Sprintf("its id is longer than %d characters", maxIDRunes)
	case !isStorable(id):
		return fmt.Sprintf("its topic is not UTF-8 without NUL of at most %d characters", maxTopicRunes)
	case m.Deadline.Before(earliest()) || m.Deadline.After(latest()):
		return "its deadline is not in the years 1 to 9999"
	}
	return ""
}

// isStorable says whether the table can hold a message of this name. Statements are not asked for others: they
// would fail instead of finding nothing.
func isStorable(id node.MessageID) bool {
	return isText(id.ID) && utf8.RuneCountInString(id.ID) <= maxIDRunes &&
		isText(id.Topic) && utf8.RuneCountInString(id.Topic) <= maxTopicRunes
}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

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

func uuidOf(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
