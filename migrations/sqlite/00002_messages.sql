-- +goose Up

-- The table of messages gets another name, so that an earlier release, which would neither move positions nor count
-- attempts, fails at its first statement.

-- One row for every message that waits or is ready. Instants are microseconds since 1970-01-01T00:00:00Z; to read one,
-- write datetime(due_at / 1000000, 'unixepoch').
CREATE TABLE messages (
  -- The application's name for the message, and the lane on which it comes out: an output topic. Compared byte by byte.
  id TEXT NOT NULL,
  lane TEXT NOT NULL,

  -- Sixteen bytes that tell this message from every other of the same id before or after it.
  incarnation BLOB NOT NULL,

  -- When the message is to fire, and when it falls due: the same, unless it could not be published and is put off.
  deadline INTEGER NOT NULL,
  due_at INTEGER NOT NULL,

  -- The claim on the message: since when, by which node, and from when on that node counts as failed. NULL while the
  -- message waits.
  readied_at INTEGER,
  readied_by BLOB,
  expires_at INTEGER,

  -- How many claims may have led to a publish.
  attempts INTEGER NOT NULL DEFAULT 0,

  -- What is relayed. NULL is a null of Kafka. The headers are a JSON array of objects with one pair each.
  message_key BLOB,
  message_value BLOB,
  message_headers TEXT NOT NULL,

  PRIMARY KEY (id, lane),
  CONSTRAINT messages_claim_is_whole
    CHECK ((readied_at IS NULL) = (readied_by IS NULL) AND (readied_at IS NULL) = (expires_at IS NULL))
) STRICT;

-- What is claimed was so by a process that has ended, or it would hold this file: such claims have expired. They count
-- as attempts, and so does what falls due within a minute, because it may have been claimed and given back: nobody knows
-- whether it was published.
INSERT INTO messages (id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
    message_key, message_value, message_headers)
  SELECT id, topic, incarnation, deadline, due_at, readied_at, readied_by, readied_at,
    readied_at IS NOT NULL OR due_at <= (unixepoch() + 60) * 1000000,
    message_key, message_value, message_headers
  FROM hanger;

-- The waiting messages of each lane in the order in which they are claimed.
CREATE INDEX messages_waiting ON messages (lane, due_at, id) WHERE readied_at IS NULL;

-- The ready messages in the order in which their claims expire.
CREATE INDEX messages_claimed ON messages (expires_at, id, lane) WHERE readied_at IS NOT NULL;

-- How far each partition of the input topics has been taken in. A topic that was made anew has another topic_id; the
-- name is for people.
CREATE TABLE positions (
  topic_id BLOB NOT NULL,
  partition INTEGER NOT NULL,
  topic TEXT NOT NULL,

  -- The leader epoch of the record before next_offset, -1 if unknown, and the first offset that was not taken in.
  epoch INTEGER NOT NULL,
  next_offset INTEGER NOT NULL,

  -- The offset up to which the partition has to be taken in before anything is claimed. NULL when it has been.
  mark INTEGER,

  PRIMARY KEY (topic_id, partition)
) STRICT, WITHOUT ROWID;

-- The number of the store's history, and from when on messages are claimed in it. One row.
CREATE TABLE lineage (
  row INTEGER PRIMARY KEY CHECK (row = 1),
  number INTEGER NOT NULL,
  claims_from INTEGER NOT NULL
) STRICT;

INSERT INTO lineage (row, number, claims_from) VALUES (1, 1, -9223372036854775808);

-- The Kafka cluster and the consumer group that the store belongs to, NULL before the first start, and whether the
-- positions are still to be adopted from what that group has committed. One row.
CREATE TABLE binding (
  row INTEGER PRIMARY KEY CHECK (row = 1),
  cluster TEXT,
  consumer_group TEXT,
  adopting INTEGER NOT NULL
) STRICT;

-- An older deployment is known by its messages. If it has none, it is known by the age of its first migration: in
-- a new file that one was applied a moment ago. A new file must not adopt: its positions are lost and not unknown, if
-- the group has committed any.
INSERT INTO binding (row, adopting)
  SELECT 1, EXISTS (SELECT 1 FROM hanger) OR EXISTS (
    SELECT 1 FROM chronos_migrations WHERE version_id = 1 AND tstamp < datetime('now', '-1 minute'));

DROP TABLE hanger;
