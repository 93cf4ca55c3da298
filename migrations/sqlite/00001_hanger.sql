-- +goose Up

-- One row for every message that waits or is ready. Instants are microseconds since 1970-01-01T00:00:00Z; to read one,
-- write datetime(due_at / 1000000, 'unixepoch').
CREATE TABLE hanger (
  -- The application's name for the message, and the topic that it fires on. Compared byte by byte.
  id TEXT NOT NULL,
  topic TEXT NOT NULL,

  -- Sixteen bytes that tell this message from every other of the same id before or after it.
  incarnation BLOB NOT NULL,

  -- When the message is to fire, and when it falls due: the same, unless it could not be published and is put off.
  deadline INTEGER NOT NULL,
  due_at INTEGER NOT NULL,

  -- The claim on the message: since when, and by which node. NULL while it waits.
  readied_at INTEGER,
  readied_by BLOB,

  -- What is relayed. NULL is a null of Kafka. The headers are a JSON array of objects with one pair each.
  message_key BLOB,
  message_value BLOB,
  message_headers TEXT NOT NULL,

  PRIMARY KEY (id, topic),
  CONSTRAINT hanger_claim_is_whole CHECK ((readied_at IS NULL) = (readied_by IS NULL))
) STRICT;

-- The waiting messages in the order in which they are claimed.
CREATE INDEX hanger_waiting ON hanger (due_at, id, topic) WHERE readied_at IS NULL;

-- The ready messages in the order in which they are suspected.
CREATE INDEX hanger_ready ON hanger (readied_at, id, topic) WHERE readied_at IS NOT NULL;
