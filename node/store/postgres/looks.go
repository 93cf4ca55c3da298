package postgres

// The statements of a claim by lanes. See docs/adr/0009-looks-start-at-a-mark.md for why each lane has a place to look
// from.
const (
	// claimStatement claims on each lane the first rows that nobody else has locked, from a place on (from_due, from_id)
	// up to a due time. $1 is the node, $2 the hold time in microseconds, and the lanes are arrays.
	//
	// = ANY (ARRAY(...)) makes the inner query run once; as a join it could run for every row, and lock and claim others
	// each time (hazard H22). The row comparison is a condition of the index: it says where the scan starts, and no
	// entry before that is touched.
	claimStatement = `
UPDATE messages SET attempts = attempts + 1, (readied_at, readied_by, expires_at) = (
  SELECT clock.now, $1::uuid, clock.now + $2::bigint * interval '1 microsecond'
  FROM (SELECT clock_timestamp() AS now) AS clock
)
WHERE ctid = ANY (ARRAY(
  SELECT sized.place
  FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[], $7::text[], $8::timestamptz[])
    AS lane (topic, most, bytes, from_due, from_id, until)
  CROSS JOIN LATERAL (
    SELECT locked.place, sum(locked.message_size) OVER (
      ORDER BY locked.due_at, locked.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before
    FROM (
      SELECT ctid AS place, due_at, id, message_size FROM messages
      WHERE topic = lane.topic AND readied_at IS NULL
        AND (due_at, id) >= (lane.from_due, lane.from_id) AND due_at <= lane.until
      ORDER BY topic, due_at, id LIMIT lane.most FOR UPDATE SKIP LOCKED
    ) AS locked
  ) AS sized
  WHERE coalesce(sized.before, 0) < lane.bytes
)) AND readied_by IS NULL
RETURNING id, topic, incarnation, deadline, due_at, readied_at, expires_at, attempts,
  message_headers::text, message_key, message_value`

	// lookStatement tells for each lane the first row that waits between two due times, whoever has locked it. It sends
	// no payloads, so that the time it takes is that of wading through dead entries.
	lookStatement = `
SELECT lane.place, found.due_at, found.id
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[])
  WITH ORDINALITY AS lane (topic, from_due, until, place)
CROSS JOIN LATERAL (
  SELECT due_at, id FROM messages
  WHERE topic = lane.topic AND readied_at IS NULL AND due_at >= lane.from_due AND due_at <= lane.until
  ORDER BY topic, due_at, id LIMIT 1
) AS found`

	// expiredStatement reads the clock once, so that the index can be asked for what lies before it.
	expiredStatement = `
SELECT id, topic, incarnation, readied_at, readied_by, expires_at FROM messages
WHERE readied_at IS NOT NULL AND expires_at >= $1::timestamptz AND expires_at <= (SELECT clock_timestamp())
ORDER BY expires_at LIMIT $2::bigint`

	// lockPartitionsStatement puts the takes of each partition in a row. It locks in the order of the key, so that
	// takes cannot deadlock, and it writes, so that a commit waits for a synchronous standby whatever else happens.
	lockPartitionsStatement = `
SELECT topic_id, partition FROM partitions
WHERE topic_id = ANY ($1::uuid[])
  AND ((topic_id, partition) IN (SELECT * FROM unnest($1::uuid[], $2::integer[]))) IS TRUE
ORDER BY topic_id, partition FOR UPDATE`

	// positionsStatement reads the last row of each partition: one descent of the index each.
	positionsStatement = `
SELECT u.place, p.turn, p.epoch, p.next_offset
FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS u (topic_id, partition, place)
CROSS JOIN LATERAL (
  SELECT turn, epoch, next_offset FROM positions
  WHERE topic_id = u.topic_id AND partition = u.partition ORDER BY turn DESC LIMIT 1
) AS p`

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
)
