package postgres

// The table has three indexes, and each statement enters it through exactly one of them:
//
//	hanger_pkey     (id, topic)                                  insert, lookup, present, delete, reset
//	hanger_waiting  (due_at, id, topic) where it waits           ready
//	hanger_ready    (readied_at)        where it is ready        stuck
//
// That no other plan is possible is by construction. Sequential and bitmap scans are switched off. A partial index
// serves only a statement whose condition implies the index's, and a condition on readied_at appears only where
// that is wanted. Joins are written as lookups for one row, in an order that the planner cannot turn around: it
// would read the whole table once it takes the table for empty.
//
// Arrays are arguments, so that a statement is the same text, and the same plan, for every number of messages.
const (
	// insertStatement waits for a transaction that is inserting or deleting an id, and then goes by its outcome. Of
	// two rows of one batch with the same id and topic, the first is inserted and the second is not.
	insertStatement = `
INSERT INTO hanger (id, topic, incarnation, deadline, due_at, readied_at, readied_by,
  message_size, message_headers, message_key, message_value)
SELECT u.id, u.topic, u.incarnation, u.deadline, u.deadline,
  CASE WHEN u.readied THEN clock_timestamp() END, CASE WHEN u.readied THEN $1::uuid END,
  u.size, u.headers::jsonb, u.key, u.value
FROM unnest($2::text[], $3::text[], $4::uuid[], $5::timestamptz[], $6::boolean[],
  $7::integer[], $8::text[], $9::bytea[], $10::bytea[])
  AS u (id, topic, incarnation, deadline, readied, size, headers, key, value)
ON CONFLICT (id, topic) DO NOTHING
RETURNING id, topic, incarnation, readied_at`

	// lookupStatement tells what was in the way of inserts. The subquery's OFFSET keeps it a lookup.
	lookupStatement = `
SELECT u.place, h.incarnation, h.readied_at, h.readied_by
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (id, topic, place)
CROSS JOIN LATERAL (
  SELECT incarnation, readied_at, readied_by FROM hanger WHERE id = u.id AND topic = u.topic OFFSET 0
) AS h`

	presentStatement = `
SELECT u.place
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (id, topic, place)
CROSS JOIN LATERAL (SELECT FROM hanger WHERE id = u.id AND topic = u.topic OFFSET 0) AS h`

	// readyStatement locks the first rows that fall due and that nobody else has locked, keeps as many as the bytes
	// allow, and claims these. = ANY (ARRAY(...)) makes the inner query run once; as a join it could run for every
	// row, and lock and claim others each time (hazard H22).
	//
	// A row that changes between the look at the index and the lock is looked at again, so a row that another node has
	// just claimed is not locked. A row that has just been put off is locked but not claimed, because its ctid is
	// that of a version that this statement cannot see; the next call gets it. The last condition is implied. It
	// names readied_by so that no index but the ctid leads to the rows.
	readyStatement = `
UPDATE hanger SET readied_at = clock_timestamp(), readied_by = $1::uuid
WHERE ctid = ANY (ARRAY(
  SELECT sized.place FROM (
    SELECT locked.place, sum(locked.message_size) OVER (
      ORDER BY locked.due_at, locked.id, locked.topic ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before
    FROM (
      SELECT ctid AS place, due_at, id, topic, message_size FROM hanger
      WHERE readied_at IS NULL AND due_at <= $2::timestamptz
      ORDER BY due_at, id, topic LIMIT $3::bigint FOR UPDATE SKIP LOCKED
    ) AS locked
  ) AS sized
  WHERE coalesce(sized.before, 0) < $4::bigint
)) AND readied_by IS NULL
RETURNING id, topic, incarnation, deadline, due_at, readied_at,
  message_headers::text, message_key, message_value`

	// deleteStatement enters by the ids, in their order, and compares all three parts of the names with a hash table.
	// IS TRUE keeps that from being turned into a join. It waits for whoever has locked a row, and then looks again.
	deleteStatement = `
DELETE FROM hanger
WHERE id = ANY ($1::text[])
  AND ((id, topic, incarnation) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[]))) IS TRUE
RETURNING id, topic, incarnation`

	// stuckStatement reads the clock once, so that the index can be asked for what is older.
	stuckStatement = `
SELECT id, topic, incarnation, readied_at, readied_by FROM hanger
WHERE readied_at <= (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond'
ORDER BY readied_at LIMIT $2::bigint`

	// resetStatement is like deleteStatement. A join on readied_at would enter by that index, in which all
	// claims of one moment are neighbours, and read these for each row.
	resetStatement = `
UPDATE hanger SET readied_at = NULL, readied_by = NULL,
  due_at = coalesce(($6::timestamptz[])[array_position($3::uuid[], incarnation)], due_at)
WHERE id = ANY ($1::text[])
  AND ((id, topic, incarnation, readied_at, readied_by) IN (
    SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::timestamptz[], $5::uuid[])
  )) IS TRUE
RETURNING id, topic, incarnation`
)
