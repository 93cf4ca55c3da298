package chaos

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/sim/check"
)

// rows reads what has happened to the tables from the logical replication slot, in the order of the commits.
type rows struct {
	slot    string              // its name, and that of the publication
	tables  map[uint32]string   // the name of each relation, by its oid
	columns map[uint32][]string // and its columns
	lsn     uint64              // the end of the last transaction that was taken

	// settles is how long after the commit of a pause a statement may still end that began before it: the time limit of
	// a call of the store.
	settles time.Duration
}

// change is one change of a row. old is nil for an insert, now for a delete.
type change struct {
	table    string
	settles  time.Duration // see rows
	at       time.Time     // of the commit
	old, now tuple
}

// tuple is a row: the text of each column. A column that is null is missing.
type tuple map[string]string

// read takes all changes since the last time. It looks first and takes only what it has seen before: what a server
// sends to a connection that has died in between would be lost. So some changes are offered again, and after a crash
// more of them: what ends no later than what was taken is left out.
func (r *rows) read(ctx context.Context, conn *pgx.Conn) ([]change, error) {
	const query = `SELECT data FROM pg_logical_slot_peek_binary_changes($1::text, NULL, 10000,
		'proto_version', '1', 'publication_names', $1::text)`
	if r.lsn > 0 { // a server that has crashed may be behind that again
		const advance = "SELECT pg_replication_slot_advance($1, $2::text::pg_lsn)"
		lsn := fmt.Sprintf("%X/%X", r.lsn>>32, uint32(r.lsn))
		if _, err := conn.Exec(ctx, advance, r.slot, lsn); err != nil {
			return nil, fmt.Errorf("advance the replication slot: %w", err)
		}
	}
	result, err := conn.Query(ctx, query, r.slot)
	if err != nil {
		return nil, fmt.Errorf("read the replication slot: %w", err)
	}
	messages, err := pgx.CollectRows(result, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read the replication slot: %w", err)
	}
	var all, transaction []change
	for _, m := range messages {
		d := decoder{rest: m[1:]}
		switch m[0] {
		case 'B':
			transaction = transaction[:0]
		case 'R':
			r.relation(&d)
		case 'I', 'U', 'D':
			transaction = append(transaction, r.change(&d))
		case 'C':
			end, at := r.commit(&d)
			if end <= r.lsn {
				continue
			}
			r.lsn = end
			for _, c := range transaction {
				c.at = at
				all = append(all, c)
			}
		}
		if d.broken {
			return nil, fmt.Errorf("read the replication slot: the message %x is too short", m)
		}
	}
	return all, nil
}

// decoder takes a message of the protocol pgoutput apart (Postgres documentation, "Logical Replication Message
// Formats").
type decoder struct {
	rest   []byte
	broken bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.broken = true
		d.rest = nil
		return make([]byte, min(max(n, 0), 8)) // enough for any number, and little where a length is nonsense
	}
	part := d.rest[:n]
	d.rest = d.rest[n:]
	return part
}

func (d *decoder) byte() byte     { return d.take(1)[0] }
func (d *decoder) uint16() int    { return int(binary.BigEndian.Uint16(d.take(2))) }
func (d *decoder) uint32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) uint64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

func (d *decoder) text() string {
	for i, b := range d.rest {
		if b == 0 {
			return string(d.take(i + 1)[:i])
		}
	}
	d.broken = true
	return ""
}

// relation learns the names of the columns.
func (r *rows) relation(d *decoder) {
	oid := d.uint32()
	d.text() // the schema
	r.tables[oid] = d.text()
	d.byte() // what identifies a row
	columns := make([]string, d.uint16())
	for i := range columns {
		d.byte() // whether it is a part of the key
		columns[i] = d.text()
		d.take(8) // the type
	}
	r.columns[oid] = columns
}

// change reads an insert, an update or a delete: they differ by which tuples there are.
func (r *rows) change(d *decoder) change {
	oid := d.uint32()
	columns := r.columns[oid]
	c := change{table: r.tables[oid], settles: r.settles}
	for len(d.rest) > 0 {
		switch kind := d.byte(); kind {
		case 'N':
			c.now = d.tuple(columns, c.old)
		case 'O', 'K':
			c.old = d.tuple(columns, nil)
		default:
			d.broken = true
			return c
		}
	}
	d.broken = d.broken || c.old == nil && c.now == nil // it is cut off before its first tuple
	return c
}

// tuple reads a row. A large value that has not changed is not sent again.
func (d *decoder) tuple(columns []string, before tuple) tuple {
	t := tuple{}
	for i := range d.uint16() {
		name := strconv.Itoa(i)
		if i < len(columns) {
			name = columns[i]
		}
		switch d.byte() {
		case 'n':
		case 'u':
			if value, was := before[name]; was {
				t[name] = value
			}
		default:
			t[name] = string(d.take(int(d.uint32())))
		}
		if d.broken {
			return t
		}
	}
	return t
}

// commit reads the end of a transaction: where it ends in the log, and when it was committed.
func (r *rows) commit(d *decoder) (end uint64, at time.Time) {
	d.byte()   // flags
	d.uint64() // where the commit is
	end = d.uint64()
	since := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	return end, since.Add(time.Duration(d.uint64()) * time.Microsecond)
}

// events returns what a change means. since is when the history begins.
func (c *change) events(since time.Time) ([]check.Event, error) {
	row := c.now
	if row == nil {
		row = c.old
	}
	if c.table == pausesTable {
		return c.steering(row["lane"], since), nil
	}
	e := check.Event{At: c.at.Sub(since), ID: row["id"], Topic: row["lane"]}
	var err error
	if e.Incarnation, err = check.ParseUUID(row["incarnation"]); err != nil {
		return nil, fmt.Errorf("read the row of %s: %w", e.ID, err)
	}
	before, now := c.old["readied_by"], c.now["readied_by"]
	switch {
	case c.old == nil:
		e.Kind, e.Message = check.Insert, numberInJSON(row["message_headers"])
		if e.Deadline, err = instant(row["deadline"], since); err == nil && now != "" {
			err = claimed(&e, row, since)
		}
	case c.now == nil:
		e.Kind = check.Delete
	case now != "" && (before == "" || c.old["readied_at"] != c.now["readied_at"] || before != now):
		e.Kind = check.Claim
		err = claimed(&e, c.now, since)
	case before != "" && now == "":
		e.Kind = check.Reset
		if err = claimed(&e, c.old, since); err == nil {
			e.Age, e.Expires = e.At-e.Stamp, 0
		}
		// Whoever gives a claim back and knows that nothing was published under it takes its attempt back.
		e.Unsent = c.old["attempts"] != c.now["attempts"]
		if c.old["due_at"] != c.now["due_at"] && err == nil {
			e.Due, err = instant(c.now["due_at"], since)
		}
	default:
		return nil, nil // nothing that matters
	}
	if err != nil {
		return nil, fmt.Errorf("read the row of %s: %w", e.ID, err)
	}
	return []check.Event{e}, nil
}

// steering returns what a change of the pauses means. A claim may be stamped after the pause was committed, although
// its statement began before and could not see it; so what counts is when all such statements have ended.
func (c *change) steering(lane string, since time.Time) []check.Event {
	e := check.Event{Kind: check.Pause, At: c.at.Sub(since), Topic: lane}
	e.Stamp = e.At + c.settles
	if c.now == nil {
		e.Kind, e.Stamp = check.Resume, 0
	}
	return []check.Event{e}
}

// claimed reads the claim on a row.
func claimed(e *check.Event, row tuple, since time.Time) error {
	var errs [3]error
	e.Owner, errs[0] = check.ParseUUID(row["readied_by"])
	e.Stamp, errs[1] = instant(row["readied_at"], since)
	e.Expires, errs[2] = instant(row["expires_at"], since)
	return errors.Join(errs[:]...)
}

// instant reads a timestamptz as a session in UTC writes it.
func instant(text string, since time.Time) (time.Duration, error) {
	t, err := time.Parse("2006-01-02 15:04:05.999999-07", text)
	if err != nil {
		return 0, fmt.Errorf("read an instant: %w", err)
	}
	return t.Sub(since), nil
}

// numberInJSON returns the number of a submission from the headers of a row, an array of objects with one pair each.
func numberInJSON(headers string) int {
	var list []map[string]any
	if json.Unmarshal([]byte(headers), &list) != nil {
		return 0
	}
	for _, h := range list {
		if text, is := h[numberHeader].(string); is {
			n, _ := strconv.Atoi(text)
			return n
		}
	}
	return 0
}
