-- +goose Up

-- What the store knows of itself: one row.
CREATE TABLE store (
  single         boolean     NOT NULL DEFAULT true,
  cluster        text        NOT NULL DEFAULT '',
  consumer_group text        NOT NULL DEFAULT '',
  adopting       boolean     NOT NULL,
  lineage        bigint      NOT NULL DEFAULT 1,
  timeline       text        NOT NULL,
  gate           timestamptz NOT NULL DEFAULT '-infinity',
  CONSTRAINT store_pkey PRIMARY KEY (single),
  CONSTRAINT store_has_one_row CHECK (single)
);

COMMENT ON TABLE store IS 'What the store of Chronos belongs to, and which of its histories this is. It has one row.';
COMMENT ON COLUMN store.cluster IS 'The id of the Kafka cluster; empty before a node has started.';
COMMENT ON COLUMN store.adopting IS
  'Whether this was the database of a release that kept no positions: the committed offsets are adopted, once.';
COMMENT ON COLUMN store.lineage IS 'Goes up when the store was set back or a position was lowered.';
COMMENT ON COLUMN store.timeline IS
  'The timeline that the server was on when the lineage began; on another one it may have lost what was committed.';
COMMENT ON COLUMN store.gate IS 'When the claims from before the lineage have expired.';

-- This comes first, because the table and its indexes are written anew below. A database that a deployment has used
-- adopts what its consumer group has committed. One that is made by this very run must not: if its group has commits,
-- then the database that belonged to them is lost, and a node has to refuse to start rather than pass over all that Kafka
-- still has. Two things tell them apart. The index of the ids has grown beyond its first page, which it never gives
-- back, so it has had rows, even if all of them have fired. Or version 1 has not been applied just now: that deployment
-- may never have had to store anything, because all it got was due already.
INSERT INTO store (adopting, timeline)
SELECT
  EXISTS (SELECT FROM hanger)
    OR pg_relation_size('hanger_pkey') > current_setting('block_size')::bigint
    OR EXISTS (
      SELECT FROM chronos_migrations
      WHERE version_id = 1 AND tstamp < (now() AT TIME ZONE 'UTC') - interval '1 minute'
    ),
  substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);

-- The table gets another name, so that a node of an earlier release, which would neither move positions nor count
-- attempts nor write down when its claims expire, fails at its next statement and leaves. hanger_pkey and the checks
-- follow. Stop the nodes first all the same: until then a claim of theirs may be published twice.
ALTER TABLE hanger RENAME TO messages;
ALTER TABLE messages RENAME COLUMN topic TO lane;
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

ALTER TABLE messages
  ADD COLUMN source_topic text COLLATE "C", ADD COLUMN source_partition integer, ADD COLUMN source_offset bigint;

COMMENT ON COLUMN messages.id IS
  'The application''s name for the message, unique for its lane while the row exists.';
COMMENT ON COLUMN messages.lane IS 'Where the message comes out: an output topic.';
COMMENT ON COLUMN messages.source_topic IS
  'The record that the message was submitted by, for people who look for it; null if it is not known.';
COMMENT ON COLUMN messages.expires_at IS
  'When the claim counts as that of a failed node, by the clock of this server; null while the message waits.';
COMMENT ON COLUMN messages.attempts IS 'How many claims on this incarnation may have led to a publish.';

-- What falls due next on each lane. Its order is exactly the one that messages are claimed in, so that a claim reads
-- as many rows as it takes, also when a hundred thousand fall due at one instant.
CREATE INDEX messages_waiting ON messages (lane, due_at, id) WHERE readied_at IS NULL;

-- Which claims expire first.
CREATE INDEX messages_claimed ON messages (expires_at) WHERE readied_at IS NOT NULL;

-- The input partitions. FOR UPDATE of a row is what puts the takes of one partition in a row. A row that is locked leaves
-- no dead row behind, one that is updated does; so only a catch-up changes rows, which sets marks and passes them.
CREATE TABLE partitions (
  topic_id  uuid    NOT NULL,
  partition integer NOT NULL,
  topic     text    COLLATE "C" NOT NULL,
  mark      bigint,
  CONSTRAINT partitions_pkey PRIMARY KEY (topic_id, partition)
);

COMMENT ON TABLE partitions IS 'The partitions that messages come from. Takes lock these rows and do not change them.';
COMMENT ON COLUMN partitions.mark IS
  'The offset up to which the partition has to be taken in before messages are claimed again; null when it was.';

CREATE INDEX partitions_marked ON partitions (topic_id, partition) WHERE mark IS NOT NULL;

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
