package postgres

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
)

// sweptAnswers is how many answers that have expired are deleted for each one that is stored: more than one, so that
// they get fewer when requests get fewer.
const sweptAnswers = 4

// The statements about what requests were told.
const (
	// answersStatement comes after the locks of the messages. Of two takes of one request, on two nodes, the second
	// waits there, and then sees what the first was told; where there is no message that could be locked it meets the
	// first one's answer when it inserts its own, and begins anew.
	answersStatement = `
SELECT u.place, a.print, a.expires_at, a.outcome, a.id, a.lane, a.incarnation, a.deadline, a.former_deadline,
  a.sequence, a.may_appear, a.lineage
FROM unnest($1::uuid[]) WITH ORDINALITY AS u (request, place)
CROSS JOIN LATERAL (
  SELECT print, expires_at, outcome, id, lane, incarnation, deadline, former_deadline, sequence, may_appear, lineage
  FROM answers WHERE request = u.request LIMIT 1
) AS a`

	// rememberStatement fails where another take has answered the request meanwhile.
	rememberStatement = `
INSERT INTO answers (request, print, expires_at, outcome, id, lane, incarnation, deadline, former_deadline, sequence,
  may_appear, lineage)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::uuid[],
  $8::timestamptz[], $9::timestamptz[], $10::bigint[], $11::boolean[], $12::bigint[])`

	// replacedStatement makes room for answers to requests whose former ones have expired. IS TRUE keeps the condition
	// from leading to the other index.
	replacedStatement = "DELETE FROM answers WHERE request = ANY ($1::uuid[]) AND (expires_at <= $2::timestamptz) IS " +
		"TRUE"

	// sweepStatement leaves to others what they are deleting.
	sweepStatement = `
DELETE FROM answers WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM answers WHERE expires_at <= $1::timestamptz ORDER BY expires_at LIMIT $2::bigint
  FOR UPDATE SKIP LOCKED
))`
)

// answer is what a request was told, or is told by this take.
type answer struct {
	told    node.Told
	request *node.Request // nil if it was told before
	expires time.Time     // zero if it is told by this take
}

// answers are those to the requests of a take, by the ids of these.
type answers map[uuid.UUID]*answer

// answersSteps returns the statement that reads those that there are; none where nobody asks.
func (t *take) answersSteps() []step {
	var ids []pgtype.UUID
	for i := range t.request.Items {
		if request := t.request.Items[i].Request; request != nil {
			ids = append(ids, uuidOf(request.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	t.answers = make(answers, len(ids))
	return []step{{statement: answersStatement, arguments: []any{ids}, read: func(rows pgx.Rows) error {
		var at int
		var outcome string
		var incarnation pgtype.UUID
		var deadline, former pgtype.Timestamptz
		var sequence pgtype.Int8
		a := &answer{}
		told := &a.told
		err := rows.Scan(&at, &told.Print, &a.expires, &outcome, &told.Message.ID, &told.Message.Lane, &incarnation,
			&deadline, &former, &sequence, &told.MayAppear, &told.Lineage)
		if err != nil {
			return err
		}
		told.Incarnation, told.Sequence = incarnation.Bytes, sequence.Int64
		if deadline.Valid {
			told.Deadline = deadline.Time.UTC()
		}
		if former.Valid {
			told.Former = former.Time.UTC()
		}
		t.answers[ids[at-1].Bytes] = a
		told.Outcome, err = node.ParseOutcome(outcome)
		return err
	}}}
}

// answered returns what the request of an item has been told, by an earlier take or by an item before it in this one;
// nil for nothing.
func (t *take) answered(item *node.Item) *node.Told {
	if item.Request == nil {
		return nil
	}
	a := t.answers[item.Request.ID]
	if a == nil || a.request == nil && !t.now.Before(a.expires) || a.request != nil && a.request.Keep <= 0 {
		return nil
	}
	told := a.told
	told.Again = true
	return &told
}

// tell notes what the request of an item is told.
func (t *take) tell(item *node.Item, v node.Verdict) *node.Told {
	told := item.Tell(v, t.state.Lineage)
	a := &answer{told: told, request: item.Request}
	if before := t.answers[item.Request.ID]; before != nil {
		a.expires = before.expires // there is a row to be replaced
	}
	t.answers[item.Request.ID] = a
	return &told
}

// remember returns the statements that store what was told, in the order of the requests, so that two takes do not wait
// for each other.
func (t *take) remember() []step {
	var given []*answer
	for _, a := range t.answers {
		if a.request != nil {
			given = append(given, a)
		}
	}
	if len(given) == 0 {
		return nil
	}
	slices.SortFunc(given, func(a, b *answer) int { return bytes.Compare(a.request.ID[:], b.request.ID[:]) })
	var requests, prints, incarnations, replaced []pgtype.UUID
	var expires []time.Time
	var deadlines, formers []pgtype.Timestamptz
	var outcomes, ids, lanes []string
	var sequences []pgtype.Int8
	var appear []bool
	var lineages []int64
	for _, a := range given {
		if !a.expires.IsZero() {
			replaced = append(replaced, uuidOf(a.request.ID))
		}
		told := &a.told
		requests, prints = append(requests, uuidOf(a.request.ID)), append(prints, uuidOf(told.Print))
		expires = append(expires, expiry(t.now, a.request.Keep))
		outcomes = append(outcomes, told.Outcome.String())
		ids, lanes = append(ids, told.Message.ID), append(lanes, told.Message.Lane)
		incarnation := uuidOf(told.Incarnation)
		incarnation.Valid = told.Incarnation != uuid.Nil
		incarnations = append(incarnations, incarnation)
		deadlines, formers = append(deadlines, instantOf(told.Deadline)), append(formers, instantOf(told.Former))
		sequences = append(sequences, pgtype.Int8{Int64: told.Sequence, Valid: told.Sequence != 0})
		appear, lineages = append(appear, told.MayAppear), append(lineages, told.Lineage)
	}
	var steps []step
	if len(replaced) > 0 {
		steps = append(steps, step{statement: replacedStatement, arguments: []any{replaced, t.now}})
	}
	return append(steps,
		step{statement: sweepStatement, arguments: []any{t.now, int64(sweptAnswers * len(given))}},
		step{statement: rememberStatement, arguments: []any{
			requests, prints, expires, outcomes, ids, lanes, incarnations, deadlines, formers, sequences, appear,
			lineages,
		}},
	)
}

// instantOf returns an instant as an argument: NULL for the zero value.
func instantOf(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
