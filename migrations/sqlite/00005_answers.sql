-- +goose Up

-- What requests were told that came past Kafka, by HTTP say, each in the transaction that did what it asked for: whoever
-- repeats a request gets the same answer. Rows are inserted and deleted, never changed: a few that have expired with
-- each that is inserted. Instants are microseconds since 1970; those that there are none of are NULL.
CREATE TABLE answers (
  request BLOB PRIMARY KEY,
  print BLOB NOT NULL,
  expires_at INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  id TEXT NOT NULL,
  lane TEXT NOT NULL,
  incarnation BLOB,
  deadline INTEGER,
  former_deadline INTEGER,
  sequence INTEGER,
  may_appear INTEGER NOT NULL,
  lineage INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX answers_expiring ON answers (expires_at);
