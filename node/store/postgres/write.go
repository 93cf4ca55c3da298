package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
)

// write returns the statements that store what is decided, each message once. The inserts come first: only they can
// wait for another take, and takes insert in one order. If a row were removed before, two could wait for each other:
//
//	                                                      look for a and b: none is there
//	                          b is inserted by a third take
//	look for a and b: only b is there
//	remove b
//	                                                      insert a
//	                                                      insert b: waits for what becomes of b
//	insert a: waits for what becomes of a
//
// As it is, the right one meets b while it is still there, and begins anew.
func (t *take) write() []step {
	var changed, replaced, removed []*row
	inserted := make([]*row, 0, len(t.fresh))
	for _, r := range t.fresh {
		if r.kept != nil {
			inserted = append(inserted, r)
		}
	}
	slices.SortFunc(inserted, func(a, b *row) int { return compareNames(a.name, b.name) })
	for _, r := range t.existing() {
		switch {
		case r.kept == nil:
			removed = append(removed, r)
		case r.content != nil:
			replaced = append(replaced, r)
		case *r.kept != r.stored:
			changed = append(changed, r)
		}
	}
	steps := t.bring(insertStatement, inserted)
	steps = append(steps, t.bring(replyStatement, t.replies)...)
	for rows := range slices.Chunk(changed, batchRows) {
		steps = append(steps, change(rows))
	}
	steps = append(steps, t.bring(replaceStatement, replaced)...)
	for rows := range slices.Chunk(removed, batchRows) {
		steps = append(steps, step{statement: removeStatement, arguments: []any{places(rows)}})
	}
	return slices.Concat(steps, t.remember(), t.move())
}

// bring returns the statements that store contents: insertStatement, or one that is like it, for as many rows at a time
// as are allowed.
func (t *take) bring(statement string, rows []*row) (steps []step) {
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && n < batchRows {
			next := rows[n].content.Size()
			if n > 0 && size+next > batchBytes {
				break
			}
			size += next
			n++
		}
		c := newColumns(n)
		for _, r := range rows[:n] {
			c.add(r.content, r.kept, r.held() != node.Claim{})
		}
		arguments := []any{uuidOf(t.request.Node), t.now, expiry(t.now, t.request.Hold)}
		if statement == replaceStatement {
			arguments = append(arguments, places(rows[:n]))
		} else {
			arguments = append(arguments, c.ids, c.lanes)
		}
		contents, text := c.contents(), statement
		switch {
		case statement == insertStatement && !c.plain():
			text = insertAllStatement
		case statement != replaceStatement:
			contents = contents[:len(contents)-few]
		}
		steps = append(steps, step{statement: text, arguments: append(arguments, contents...), data: true})
		rows = rows[n:]
	}
	return steps
}

// change returns the statement for messages whose content stays.
func change(rows []*row) step {
	incarnations, bound, stopped := make([]pgtype.UUID, len(rows)), make([]bool, len(rows)), make([]bool, len(rows))
	deadlines, dues := make([]time.Time, len(rows)), make([]time.Time, len(rows))
	for i, r := range rows {
		incarnations[i], bound[i], stopped[i] = uuidOf(r.kept.Incarnation), r.kept.Bound, r.kept.Stopped
		deadlines[i], dues[i] = r.kept.Deadline, r.kept.Due
	}
	return step{
		statement: changeStatement, arguments: []any{places(rows), incarnations, deadlines, dues, bound, stopped},
	}
}

// places returns where rows are.
func places(rows []*row) []pgtype.TID {
	list := make([]pgtype.TID, len(rows))
	for i, r := range rows {
		list[i] = r.place
	}
	return list
}

// move returns the statements that move the positions, and remove the marks that were passed.
func (t *take) move() []step {
	var moved, passed moves
	for _, at := range t.partitions {
		p := &t.found[at]
		if !p.moved {
			continue
		}
		moved.add(t.request.From[at].Partition, p.turn, p.Position)
		if p.passed {
			passed.add(t.request.From[at].Partition, 0, node.Position{})
		}
	}
	steps := moved.steps()
	if len(passed.topics) > 0 {
		none := make([]pgtype.Int8, len(passed.topics))
		steps = append(steps,
			step{statement: markStatement, arguments: []any{passed.topics, passed.numbers, none}},
			stateStep(&t.result.State, new(time.Time)),
		)
	}
	return steps
}

// existing returns the rows that were there already, in the order of their names.
func (t *take) existing() (rows []*row) {
	for _, name := range t.names {
		if r := t.rows[name]; r != nil && r.place.Valid {
			rows = append(rows, r)
		}
	}
	return rows
}

// note tells the looks for what is due of all that waits since this take.
func (t *take) note(l *looks) {
	for _, r := range slices.Concat(t.fresh, t.replies, t.existing()) {
		changed := r.kept != nil && (r.kept.Incarnation != r.stored.Incarnation || !r.kept.Due.Equal(r.stored.Due))
		if changed && r.held() == (node.Claim{}) {
			l.note(r.name.Lane, r.kept.Due)
		}
	}
}
