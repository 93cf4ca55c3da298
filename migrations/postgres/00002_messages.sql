-- +goose Up

-- The table gets another name, so that a node of an earlier release, which would neither move positions nor count
-- attempts nor write down when its claims expire, fails at its next statement and leaves. hanger_pkey and the checks
-- follow. Stop the nodes first all the same: until then a claim of theirs may be published twice.
ALTER TABLE hanger RENAME TO messages;
ALTER TABLE messages RENAME CONSTRAINT hanger_pkey TO messages_pkey;
ALTER TABLE messages RENAME CONSTRAINT hanger_instants_are_finite TO messages_instants_are_finite;
DROP INDEX hanger_waiting;
DROP INDEX hanger_ready;
ALTER TABLE messages DROP CONSTRAINT hanger_claim_is_whole;

-- The values of what is there already are written by the change of type, which rewrites the table once; an UPDATE would
-- leave a table of twice the size behind. What is claimed, or falls due so soon that it may have been claimed and
-- given back, counts as attempted: nobody knows whether it was published. Claims expire a minute from now, which is
-- longer than any hold time in use.
ALTER TABLE messages ADD COLUMN expires_at timestamptz, ADD COLUMN attempts integer;
ALTER TABLE messages
  ALTER COLUMN expires_at TYPE timestamptz
    USING CASE WHEN readied_at IS NOT NULL THEN clock_timestamp() + interval '1 minute' END,
  ALTER COLUMN attempts TYPE integer
    USING CASE WHEN readied_at IS NOT NULL OR due_at < clock_timestamp() + interval '1 minute' THEN 1 ELSE 0 END,
  ALTER COLUMN attempts SET DEFAULT 0,
  ALTER COLUMN attempts SET NOT NULL,
  ADD CONSTRAINT messages_claim_is_whole
    CHECK ((readied_at IS NULL) = (readied_by IS NULL) AND (readied_at IS NULL) = (expires_at IS NULL));

COMMENT ON COLUMN messages.expires_at IS
  'When the claim counts as that of a failed node, by the clock of this server; null while the message waits.';
COMMENT ON COLUMN messages.attempts IS 'How many claims on this incarnation may have led to a publish.';

-- What falls due next on each lane. Its order is exactly the one that messages are claimed in, so that a claim reads
-- as many rows as it takes, also when a hundred thousand fall due at one instant.
CREATE INDEX messages_waiting ON messages (topic, due_at, id) WHERE readied_at IS NULL;

-- Which claims expire first.
CREATE INDEX messages_claimed ON messages (expires_at) WHERE readied_at IS NOT NULL;

-- The input partitions. A row is never changed after it was made, only locked: FOR UPDATE of it is what puts the takes
-- of one partition in a row. A row that is locked leaves no dead row behind, one that is updated does.
CREATE TABLE partitions (
  topic_id  uuid    NOT NULL,
  partition integer NOT NULL,
  topic     varchar(249) COLLATE "C" NOT NULL,
  CONSTRAINT partitions_pkey PRIMARY KEY (topic_id, partition)
);

COMMENT ON TABLE partitions IS 'The partitions that messages come from. Rows are locked, not changed.';

-- How far each partition has been taken in. Every take adds a row and deletes the one before it. Of a row that was
-- updated in place the server keeps all versions while some transaction has an old snapshot, under one key, and wades
-- through them at each look: 2 ms after 60,000 takes. Here the live row is always the last of its partition, and a
-- descent of the index ends at it.
CREATE TABLE positions (
  topic_id    uuid    NOT NULL,
  partition   integer NOT NULL,
  turn        bigint  NOT NULL,
  epoch       integer NOT NULL,
  next_offset bigint  NOT NULL,
  CONSTRAINT positions_pkey PRIMARY KEY (topic_id, partition, turn)
);

COMMENT ON TABLE positions IS 'How far partitions have been taken in; the row with the highest turn counts.';
COMMENT ON COLUMN positions.turn IS 'Goes up by one with each take of the partition.';
COMMENT ON COLUMN positions.epoch IS 'The leader epoch of the record before next_offset, -1 if unknown.';
COMMENT ON COLUMN positions.next_offset IS 'The offset of the first record that was not taken in.';

ALTER TABLE positions SET (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = false
);
