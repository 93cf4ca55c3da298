package postgres

import "strings"

// The table of messages has three indexes, and nearly each statement enters it through exactly one of them:
//
//	messages_pkey     (id, lane)                                   take, delete, reset
//	messages_waiting  (lane, part, due_at, id) where it waits      claim, look, parts
//	messages_claimed  (expires_at)             where it is claimed expired
//
// Those that stand in a line, which few do, are in two more, for turn and forward:
//
//	messages_line     (line, lane, deadline, id)
//	messages_served   (line, lane)        where it is claimed
//
// What was put off is in one more, for deferred_count:
//
//	messages_deferred (lane, deadline, due_at)
//
// That no other plan is possible is by construction. Sequential and bitmap scans are switched off. A partial index
// serves only a statement whose condition implies the index's, and a condition on readied_at appears only where
// that is wanted. Joins are written as lookups for one row, in an order that the planner cannot turn around: it
// would read the whole table once it takes the table for empty. Then it would also read all of the flattest index, and
// sort what it finds, in place of a few entries of the one that has them in order:
//
//	a snapshot is held       messages come and go, millions      the table is analyzed, and has no row
//	                                                             messages_waiting is a level higher than messages_pkey
//	                                                             a claim reads all dead entries of messages_pkey
//
// So sorts are switched off, too: those that nothing else can do are done in spite of it.
//
// A row that a transaction has locked it finds again by its place (ctid), which needs no index.
//
// Arrays are arguments, so that a statement is the same text, and the same plan, for every number of messages.

// The statements of a take, in their order.
const (
	// lockPartitionsStatement puts the takes of each partition in a row. It locks in the order of its arguments, which
	// is that of the key, so that takes cannot deadlock. A lock is written to the log, so that the commit waits for a
	// synchronous standby whatever else the take does; that is what an answer rests on when all of its records were
	// taken in before.
	lockPartitionsStatement = `
SELECT u.place, p.mark
FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS u (topic_id, partition, place)
CROSS JOIN LATERAL (
  SELECT mark FROM partitions WHERE topic_id = u.topic_id AND partition = u.partition FOR UPDATE
) AS p`

	// positionsStatement reads the last row of each partition: one descent of the index each. It is a statement of its
	// own, after that with the locks, because a statement sees only what was committed when it began.
	positionsStatement = `
SELECT u.place, p.turn, p.epoch, p.next_offset
FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS u (topic_id, partition, place)
CROSS JOIN LATERAL (
  SELECT turn, epoch, next_offset FROM positions
  WHERE topic_id = u.topic_id AND partition = u.partition ORDER BY turn DESC LIMIT 1
) AS p`

	// positionsAndStateStatement tells both what positionsStatement tells and what stateStatement does, in each row; in
	// one, without a place, if there is no position.
	positionsAndStateStatement = `
SELECT at.*, state.*
FROM (` + stateStatement + `) AS state
LEFT JOIN (` + positionsStatement + `) AS at (place, turn, epoch, next_offset) ON true`

	// lockMessagesStatement locks the rows that are there already, in the order of its arguments, which is that of
	// their names, and reads what instructions are decided on. It waits for a transaction that is changing a row, and
	// follows the row to what that has made of it.
	lockMessagesStatement = messagesHead + " FOR UPDATE\n) AS m"

	messagesHead = `
SELECT u.place, m.ctid, m.incarnation, m.deadline, m.due_at, m.readied_at, m.readied_by, m.expires_at, m.attempts,
  m.bound, m.former, m.sequence, m.stopped
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (id, lane, place)
CROSS JOIN LATERAL (
  SELECT ctid, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts, bound, former,
    sequence, stopped
  FROM messages WHERE id = u.id AND lane = u.lane`

	// lockFreePartitionsStatement and lockFreeMessagesStatement lock only what nobody else has locked, and
	// readMessagesStatement reads what is there, whoever has locked it.
	lockFreePartitionsStatement = `
SELECT u.place, p.mark
FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS u (topic_id, partition, place)
CROSS JOIN LATERAL (
  SELECT mark FROM partitions WHERE topic_id = u.topic_id AND partition = u.partition FOR UPDATE SKIP LOCKED
) AS p`

	lockFreeMessagesStatement = messagesHead + " FOR UPDATE SKIP LOCKED\n) AS m"

	readMessagesStatement = messagesHead + " LIMIT 1\n) AS m"

	// stateStatement tells what the store is, and the time.
	stateStatement = `
SELECT lineage, gate > clock_timestamp(), gate <= clock_timestamp() AND calls_gate > clock_timestamp(),
  EXISTS (SELECT FROM partitions WHERE mark IS NOT NULL),
  timeline <> ` + currentTimeline + `, EXISTS (SELECT FROM pauses WHERE lane = ''), clock_timestamp()
FROM store WHERE single`

	// pausedStatement tells what is paused.
	pausedStatement = "SELECT lane FROM pauses WHERE lane >= ''"

	// insertStatement waits for a transaction that is inserting or deleting an id, and fails when that leaves a row:
	// the take that met it begins anew.
	insertStatement = `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
  source_topic, source_partition, source_offset, message_size, message_headers, message_key, message_value)
SELECT u.id, u.lane, u.incarnation, u.deadline, u.deadline,
  CASE WHEN u.claimed THEN $2::timestamptz END, CASE WHEN u.claimed THEN $1::uuid END,
  CASE WHEN u.claimed THEN $3::timestamptz END, u.claimed::integer,
  u.source_topic, u.source_partition, u.source_offset, u.size, u.headers::jsonb, u.key, u.value
FROM unnest($4::text[], $5::text[], $6::uuid[], $7::timestamptz[], $8::boolean[],
  $9::text[], $10::integer[], $11::bigint[], $12::integer[], $13::text[], $14::bytea[], $15::bytea[])
  AS u (id, lane, incarnation, deadline, claimed,
    source_topic, source_partition, source_offset, size, headers, key, value)`

	// insertAllStatement is the same for a batch in which some message has what most have not. Each array costs
	// something for each row, even if it is NULL. The arrays from due on may be shorter than the others, or NULL: what
	// they lack is null.
	insertAllStatement = `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
  source_topic, source_partition, source_offset, message_size, message_headers, message_key, message_value,
  not_after, bound, former, series, sequence, occurs_at, stopped, line)
SELECT u.id, u.lane, u.incarnation, u.deadline, coalesce(u.due, u.deadline),
  CASE WHEN u.claimed THEN $2::timestamptz END, CASE WHEN u.claimed THEN $1::uuid END,
  CASE WHEN u.claimed THEN $3::timestamptz END, u.claimed::integer,
  u.source_topic, u.source_partition, u.source_offset, u.size, u.headers::jsonb, u.key, u.value,
  u.not_after, coalesce(u.bound, false), coalesce(u.former, false),
  u.series, u.sequence, u.occurs_at, coalesce(u.stopped, false), u.line
FROM unnest($4::text[], $5::text[], $6::uuid[], $7::timestamptz[], $8::boolean[],
  $9::text[], $10::integer[], $11::bigint[], $12::integer[], $13::text[], $14::bytea[], $15::bytea[],
  $16::timestamptz[], $17::timestamptz[], $18::boolean[], $19::boolean[],
  $20::text[], $21::bigint[], $22::timestamptz[], $23::boolean[], $24::uuid[])
  AS u (id, lane, incarnation, deadline, claimed,
    source_topic, source_partition, source_offset, size, headers, key, value, due, not_after, bound, former,
    series, sequence, occurs_at, stopped, line)`

	// replyStatement is insertStatement for what tells of outcomes, whose names are the store's own: they have the
	// record and the lineage in them. A message that somebody has given such a name, for whatever reason, must not be
	// in the way of its partition forever, and is left alone.
	replyStatement = insertStatement + " ON CONFLICT DO NOTHING"

	// changeStatement gives messages that are stored another incarnation and another time, binds or stops them. One
	// that gets another incarnation or deadline is parked no more. Like the two after it, it finds the rows by the
	// places at which lockMessagesStatement has found them. That is safe because the transaction has them locked:
	// nobody else moves them, and none of these statements gets one that another one has moved. A join would be free to
	// read the whole table instead.
	changeStatement = `
UPDATE messages SET (incarnation, deadline, due_at, bound, stopped, part) = (
  SELECT ($2::uuid[])[own.place], ($3::timestamptz[])[own.place], ($4::timestamptz[])[own.place],
    ($5::boolean[])[own.place], ($6::boolean[])[own.place],
    CASE WHEN (incarnation, deadline) = (($2::uuid[])[own.place], ($3::timestamptz[])[own.place])
      THEN part ELSE '' END
  FROM (SELECT array_position($1::tid[], ctid) AS place) AS own
)
WHERE ctid = ANY ($1::tid[])`

	// replaceStatement gives rows another content. The arguments are those of insertStatement, with the places of the
	// rows instead of their names. It is no delete and insert, although the server writes as much: another take that
	// waits for this one, in lockMessagesStatement, follows a row that was updated, but not one that was deleted to the
	// one that came in its place. So this would happen, although there was a message at any time:
	//
	//	replace x: lock its row, delete it, insert another
	//	                                                      cancel x: wait for the row
	//	commit
	//	                                                      the row is gone: not_found
	replaceStatement = `
UPDATE messages SET (incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
  source_topic, source_partition, source_offset, message_size, message_headers, message_key, message_value,
  not_after, bound, former, series, sequence, occurs_at, stopped, line, behind, part) = (
  SELECT ($5::uuid[])[own.place], ($6::timestamptz[])[own.place],
    coalesce(($15::timestamptz[])[own.place], ($6::timestamptz[])[own.place]),
    CASE WHEN ($7::boolean[])[own.place] THEN $2::timestamptz END,
    CASE WHEN ($7::boolean[])[own.place] THEN $1::uuid END,
    CASE WHEN ($7::boolean[])[own.place] THEN $3::timestamptz END, ($7::boolean[])[own.place]::integer,
    ($8::text[])[own.place], ($9::integer[])[own.place], ($10::bigint[])[own.place], ($11::integer[])[own.place],
    ($12::text[])[own.place]::jsonb, ($13::bytea[])[own.place], ($14::bytea[])[own.place],
    ($16::timestamptz[])[own.place], coalesce(($17::boolean[])[own.place], false),
    coalesce(($18::boolean[])[own.place], false),
    ($19::text[])[own.place], ($20::bigint[])[own.place], ($21::timestamptz[])[own.place],
    coalesce(($22::boolean[])[own.place], false), ($23::uuid[])[own.place], false, ''
  FROM (SELECT array_position($4::tid[], ctid) AS place) AS own
)
WHERE ctid = ANY ($4::tid[])`

	// removeStatement deletes rows.
	removeStatement = "DELETE FROM messages WHERE ctid = ANY ($1::tid[])"

	// moveStatement adds the row of the next turn, and forgetStatement deletes the one before.
	moveStatement = `
INSERT INTO positions (topic_id, partition, turn, epoch, next_offset)
SELECT * FROM unnest($1::uuid[], $2::integer[], $3::bigint[], $4::integer[], $5::bigint[])`

	forgetStatement = `
DELETE FROM positions
WHERE ctid = ANY (ARRAY(
  SELECT p.place
  FROM unnest($1::uuid[], $2::integer[], $3::bigint[]) AS u (topic_id, partition, turn)
  CROSS JOIN LATERAL (
    SELECT ctid AS place FROM positions
    WHERE topic_id = u.topic_id AND partition = u.partition AND turn = u.turn OFFSET 0
  ) AS p
))`

	// markStatement sets marks, or removes them.
	markStatement = `
UPDATE partitions SET mark = (
  SELECT u.mark FROM unnest($1::uuid[], $2::integer[], $3::bigint[]) AS u (topic_id, partition, mark)
  WHERE u.topic_id = partitions.topic_id AND u.partition = partitions.partition
)
WHERE topic_id = ANY ($1::uuid[])
  AND ((topic_id, partition) IN (SELECT * FROM unnest($1::uuid[], $2::integer[]))) IS TRUE`
)

// The statements about the store as a whole.
const (
	// currentTimeline is the server's timeline, the first part of the name of the file that it writes its log to.
	// Everybody may ask for that, unlike for the control file.
	currentTimeline = "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"

	// lockStoreStatement also makes the commit wait for a synchronous standby, like the lock of a partition. The gate
	// of a store that is sealed is infinitely far: see transfer.go.
	lockStoreStatement = `
SELECT cluster, consumer_group, adopting, lineage, gate = 'infinity' FROM store WHERE single FOR UPDATE`

	bindStatement = "UPDATE store SET cluster = $1, consumer_group = $2, adopting = $3 WHERE single"

	beginStatement = `
UPDATE store SET lineage = $1, timeline = ` + currentTimeline + `,
  gate = clock.now + $2::bigint * interval '1 microsecond',
  calls_gate = clock.now + $3::bigint * interval '1 microsecond'
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE single`

	// addPartitionsStatement and addPositionsStatement give a position to what has none. They are called in this order,
	// with the locks of the partitions in between.
	addPartitionsStatement = `
INSERT INTO partitions (topic_id, partition, topic)
SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[]) ON CONFLICT DO NOTHING`

	addPositionsStatement = `
INSERT INTO positions (topic_id, partition, turn, epoch, next_offset)
SELECT u.topic_id, u.partition, 1, u.epoch, u.next_offset
FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::bigint[]) AS u (topic_id, partition, epoch, next_offset)
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM positions WHERE topic_id = u.topic_id AND partition = u.partition
) AS p
WHERE p.n = 0`

	// lockAllStatement locks in the order of the key, like takes.
	lockAllStatement = "SELECT topic_id, partition, mark FROM partitions ORDER BY topic_id, partition FOR UPDATE"

	countStatement = "SELECT count(*) FROM partitions WHERE topic_id >= '00000000-0000-0000-0000-000000000000'"

	// claimsLock and lineageLock keep apart the beginning of a lineage, which waits until all claims under way have
	// been made, and claims, which then see that it has begun. They last until the end of the transaction.
	claimsLock  = "SELECT pg_advisory_xact_lock_shared('store'::regclass::oid::integer, 0)"
	lineageLock = "SELECT pg_advisory_xact_lock('store'::regclass::oid::integer, 0)"

	// confirmStatement writes to the log, for nothing else than that the commit waits for a synchronous standby.
	confirmStatement = "SELECT pg_logical_emit_message(true, 'chronos', '')"
)

// The statements of a claim by lanes. See docs/adr/0009-looks-start-at-a-mark.md for why each lane has a place to look
// from.
const (
	// claimStatement claims on each part of a lane the first rows that nobody else has locked, from a place on
	// (from_due, from_id) up to the due time $9, as many as its limit and its bytes allow, and as many of all parts
	// together, in their order, as $10 bytes allow. $1 is the node, $2 the hold time in microseconds, and the parts are
	// arrays. It looks at nothing while the store catches up or is suspect, and at no lane that is paused: the
	// condition on share.lane alone is tested before the look at the messages.
	//
	// = ANY (ARRAY(...)) makes the inner query run once; as a join it could run for every row, and lock and claim
	// others each time (hazard H22). The row comparison is a condition of the index: it says where the scan starts,
	// and no entry before that is touched.
	//
	// A row that changes between the look at the index and the lock is looked at again, so a row that another node has
	// just claimed is not locked. A row that has just been put off is locked but not claimed, because its ctid is
	// that of a version that this statement cannot see; the next call gets it. The last condition is implied. It
	// names readied_by so that no index but the ctid leads to the rows.
	//
	// attempts counts no further than its column goes, so that a row that somebody has edited cannot fail the claim.
	claimStatement = `
UPDATE messages SET attempts = attempts + (attempts < 2147483647)::integer, (readied_at, readied_by, expires_at) = (
  SELECT clock.now, $1::uuid, clock.now + $2::bigint * interval '1 microsecond'
  FROM (SELECT clock_timestamp() AS now) AS clock
)
WHERE ctid = ANY (ARRAY(
  SELECT summed.place
  FROM (
    SELECT sized.place,
      sum(sized.message_size) OVER (ORDER BY share.number, sized.number) - sized.message_size AS before
    FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::text[])
      WITH ORDINALITY AS share (lane, part, most, bytes, from_due, from_id, number)
    CROSS JOIN LATERAL (
      SELECT locked.place, locked.message_size, row_number() OVER in_order AS number,
        sum(locked.message_size) OVER in_order - locked.message_size AS before
      FROM (
        SELECT ctid AS place, due_at, id, greatest(message_size, 0) AS message_size FROM messages
        WHERE lane = share.lane AND part = share.part AND readied_at IS NULL
          AND (due_at, id) >= (share.from_due, share.from_id) AND due_at <= $9::timestamptz
        ORDER BY lane, part, due_at, id LIMIT share.most FOR UPDATE SKIP LOCKED
      ) AS locked
      WINDOW in_order AS (ORDER BY locked.due_at, locked.id)
    ) AS sized
    WHERE sized.before < share.bytes
      AND share.lane <> ALL (ARRAY(SELECT lane FROM pauses WHERE lane > ''))
      AND (NOT starts_with(share.lane, 'http:') OR (SELECT calls_gate <= clock_timestamp() FROM store WHERE single))
      AND (
      SELECT gate <= clock_timestamp() AND timeline = ` + currentTimeline + `
        AND NOT EXISTS (SELECT FROM partitions WHERE mark IS NOT NULL)
      FROM store WHERE single
    )
  ) AS summed
  WHERE summed.before < $10::bigint
)) AND readied_by IS NULL
RETURNING id, lane, incarnation, deadline, due_at, readied_at, expires_at, attempts,
  source_topic, source_partition, source_offset, message_headers::text, message_key, message_value, not_after,
  series, sequence, occurs_at, bound, line, part`

	// turnStatement tells of messages that were claimed at one instant by one node, which of them have not their turn:
	// one that is not the first of its line (1), and a first one where another of its line is claimed (2), unless that
	// was by the same claim. It runs when the claim is committed, and so sees whatever else was claimed before.
	turnStatement = `
SELECT u.place, CASE WHEN EXISTS (
  SELECT FROM messages WHERE line = u.line AND lane = u.lane AND (deadline, id) < (u.deadline, u.id)
) THEN 1 ELSE 2 END
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::timestamptz[], $6::uuid[])
  WITH ORDINALITY AS u (line, lane, deadline, id, readied_at, readied_by, place)
WHERE EXISTS (
  SELECT FROM messages WHERE line = u.line AND lane = u.lane AND (deadline, id) < (u.deadline, u.id)
) OR EXISTS (
  SELECT FROM messages WHERE line = u.line AND lane = u.lane AND expires_at IS NOT NULL
    AND (readied_at, readied_by) <> (u.readied_at, u.readied_by)
)`

	// forwardStatement has the first message of each line fall due at its deadline, if it waits and has stood back. It
	// leaves alone a row that is locked. If that is by a call by which it stands back, that call has it come forward.
	forwardStatement = `
UPDATE messages SET due_at = deadline, behind = false
WHERE ctid = ANY (ARRAY(
  SELECT first.place
  FROM unnest($1::uuid[], $2::text[]) AS u (line, lane)
  CROSS JOIN LATERAL (
    SELECT m.id, m.lane FROM messages AS m
    WHERE m.line = u.line AND m.lane = u.lane ORDER BY m.line, m.lane, m.deadline, m.id LIMIT 1
  ) AS head
  CROSS JOIN LATERAL (
    SELECT m.ctid AS place FROM messages AS m WHERE m.id = head.id AND m.lane = head.lane FOR UPDATE SKIP LOCKED
  ) AS first
)) AND readied_by IS NULL AND behind AND due_at > deadline
RETURNING lane, due_at`

	// lookStatement tells for each lane the first row that waits there, parked nowhere, between two due times, whoever
	// has locked it. It goes through as many rows as a claim there would, and sends no payloads: so the time it takes
	// is that of wading through dead entries. One that ends at the first row takes none of it where they all lie behind
	// that.
	lookStatement = `
SELECT looked.place, found.due_at, found.id
FROM unnest($1::text[], $2::timestamptz[], $4::bigint[]) WITH ORDINALITY AS looked (lane, from_due, most, place)
CROSS JOIN LATERAL (
  SELECT min(due_at) AS due_at, (array_agg(id ORDER BY due_at, id))[1] AS id FROM (
    SELECT due_at, id FROM messages
    WHERE lane = looked.lane AND part = '' AND readied_at IS NULL
      AND due_at >= looked.from_due AND due_at <= $3::timestamptz
    ORDER BY lane, part, due_at, id LIMIT looked.most
  ) AS gone_through
) AS found
WHERE found.id IS NOT NULL`

	// idleStatement tells whether somebody holds a claim, or anything is parked on some lanes, and when the first
	// message that waits on these falls due, if by some instant.
	idleStatement = `
SELECT EXISTS (SELECT FROM messages WHERE readied_at IS NOT NULL AND expires_at > '-infinity') OR EXISTS (
    SELECT FROM unnest($1::text[]) AS looked (lane)
    CROSS JOIN LATERAL (
      SELECT FROM messages WHERE lane = looked.lane AND part > '' AND readied_at IS NULL LIMIT 1
    ) AS parked
  ), min(found.due_at)
FROM unnest($1::text[]) AS looked (lane)
CROSS JOIN LATERAL (
  SELECT due_at FROM messages
  WHERE lane = looked.lane AND part = '' AND readied_at IS NULL AND due_at <= $2::timestamptz
  ORDER BY lane, part, due_at, id LIMIT 1
) AS found`

	// peekStatement tells both what idleStatement tells and what stateStatement does.
	peekStatement = `
SELECT idle.*, state.* FROM (` + idleStatement + `) AS idle (claimed, due)
CROSS JOIN (` + stateStatement + `) AS state`

	// lockLimitStatement gives the statements after it in the transaction a time limit for locks, in milliseconds.
	lockLimitStatement = "SELECT set_config('lock_timeout', $1, true)"

	// lockTableStatement and lockTablesStatement wait for whoever has locked a whole table, so that what a statement
	// after them meets within a short limit for locks is a row.
	lockTableStatement  = "LOCK TABLE messages IN ROW EXCLUSIVE MODE"
	lockTablesStatement = "LOCK TABLE messages, partitions, positions, answers IN ROW EXCLUSIVE MODE"

	// limitStatement gives the statements after it in the transaction a time limit of their own, in milliseconds.
	limitStatement = "SELECT set_config('statement_timeout', $1, true)"
)

// The statements about claims.
const (
	// deleteStatement enters by the ids, in their order, and compares all three parts of the names with a hash table.
	// IS TRUE keeps that from being turned into a join. It waits for whoever has locked a row, and then looks again.
	deleteStatement = `
DELETE FROM messages
WHERE id = ANY ($1::text[])
  AND ((id, lane, incarnation) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]))) IS TRUE
RETURNING id, lane, incarnation, line`

	// rearmStatement, endStatement and promisedStatement are like deleteStatement. The first puts the next occurrences
	// of series in the place of those that are settled, unless they are stopped. The second removes those that are, and
	// those that none follows. Both leave alone what is to be passed over and is bound, and nothing else that is there:
	// the third finds that.
	//
	// Each of them, and resetStatement, has a form that leaves alone what is locked (free), and then thereStatement, or
	// heldClaimsStatement, finds that it is still there.
	rearmStatement = `
UPDATE messages SET (incarnation, sequence, occurs_at, deadline, due_at, readied_at, readied_by, expires_at,
  attempts, bound, behind, part) = (
  SELECT ($4::uuid[])[own.place], ($5::bigint[])[own.place], ($6::timestamptz[])[own.place],
    ($6::timestamptz[])[own.place], ($6::timestamptz[])[own.place], NULL::timestamptz, NULL::uuid, NULL::timestamptz,
    0, false, false, ''
  FROM (SELECT array_position($3::uuid[], incarnation) AS place) AS own
)
WHERE id = ANY ($1::text[])
  AND ((id, lane, incarnation) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]))) IS TRUE
  AND NOT stopped AND NOT (bound AND ($7::boolean[])[array_position($3::uuid[], incarnation)])
RETURNING id, lane, incarnation, line`

	endStatement = `
DELETE FROM messages
WHERE id = ANY ($1::text[])
  AND ((id, lane, incarnation) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]))) IS TRUE
  AND (stopped OR ($4::boolean[])[array_position($3::uuid[], incarnation)])
  AND NOT (bound AND ($5::boolean[])[array_position($3::uuid[], incarnation)])
RETURNING id, lane, incarnation, line`

	promisedStatement = `
SELECT id, lane, incarnation, NULL::uuid FROM messages
WHERE id = ANY ($1::text[])
  AND ((id, lane, incarnation) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]))) IS TRUE
  AND bound`

	// expiredStatement reads the clock once, so that the index can be asked for what lies before it. It passes over
	// what is locked; firstExpiredStatement does not, and tells where the next look has to begin to find that.
	expiredStatement = `
SELECT id, lane, incarnation, readied_at, readied_by, expires_at FROM messages
WHERE readied_at IS NOT NULL AND expires_at >= $1::timestamptz
  AND expires_at <= (SELECT least(clock_timestamp(), $2::timestamptz))
ORDER BY expires_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED`

	firstExpiredStatement = `
SELECT expires_at FROM messages
WHERE readied_at IS NOT NULL AND expires_at >= $1::timestamptz
  AND expires_at <= (SELECT least(clock_timestamp(), $2::timestamptz))
ORDER BY expires_at LIMIT 1`

	// thereStatement and heldClaimsStatement tell what is there of what was to be settled, or of claims to be given up.
	thereStatement = `
SELECT id, lane, incarnation, NULL::uuid FROM messages
WHERE id = ANY ($1::text[])
  AND ((id, lane, incarnation) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]))) IS TRUE`

	heldClaimsStatement = `
SELECT id, lane, incarnation, NULL::uuid FROM messages
WHERE id = ANY ($1::text[])
  AND ((id, lane, incarnation, readied_at, readied_by) IN (
    SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::timestamptz[], $5::uuid[])
  )) IS TRUE`

	clockStatement = "SELECT clock_timestamp()"

	// resetStatement is like deleteStatement. A join on readied_at would enter by that index, in which all
	// claims of one moment are neighbours, and read these for each row.
	resetStatement = `
UPDATE messages SET readied_at = NULL, readied_by = NULL, expires_at = NULL, (due_at, attempts, behind, part) = (
  SELECT
    CASE WHEN ($8::boolean[])[own.place] AND NOT EXISTS (
      SELECT FROM messages AS m
      WHERE m.line = messages.line AND m.lane = messages.lane
        AND (m.deadline, m.id) < (messages.deadline, messages.id)
    ) THEN due_at ELSE coalesce(($6::timestamptz[])[own.place], due_at) END,
    CASE WHEN ($7::boolean[])[own.place] THEN greatest(attempts - 1, 0) ELSE attempts END,
    coalesce(($8::boolean[])[own.place], false), coalesce(($9::text[])[own.place], '')
  FROM (SELECT array_position($3::uuid[], incarnation) AS place) AS own
)
WHERE id = ANY ($1::text[])
  AND ((id, lane, incarnation, readied_at, readied_by) IN (
    SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::timestamptz[], $5::uuid[])
  )) IS TRUE
RETURNING id, lane, incarnation, CASE WHEN behind THEN line END`
)

// free returns the form of a statement about messages that leaves alone those that another session has locked. The rows
// that it changes are found by the places at which the inner query has locked them.
func free(statement string) string {
	before, rest, found := strings.Cut(statement, "\nWHERE id = ANY")
	condition, after, returns := strings.Cut(rest, "\nRETURNING")
	if !found || !returns {
		panic("chronos: no statement about messages: " + statement)
	}
	return before + "\nWHERE ctid = ANY (ARRAY(\n  SELECT ctid FROM messages WHERE id = ANY" + condition +
		"\n  FOR UPDATE SKIP LOCKED\n))\nRETURNING" + after
}
