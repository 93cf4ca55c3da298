-- +goose Up

-- What somebody has paused: lanes on which nothing is claimed, and, under the empty name, which no lane has, the intake
-- of all topics.
CREATE TABLE pauses (
  lane TEXT PRIMARY KEY,
  since INTEGER NOT NULL,
  paused_by TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which nodes there are, for people: with a file it is one. The settings and the status are JSON.
CREATE TABLE nodes (
  id BLOB PRIMARY KEY,
  host TEXT NOT NULL,
  version TEXT NOT NULL,
  started INTEGER NOT NULL,
  seen INTEGER NOT NULL,
  settings TEXT NOT NULL,
  status TEXT NOT NULL
) STRICT, WITHOUT ROWID;
