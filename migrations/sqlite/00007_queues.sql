-- +goose Up

-- Queues, their tasks, and the actions that tasks name: see package node/queue. Lists are JSON. Instants are
-- microseconds since 1970; those that there are none of are NULL, except for not_before, which is that of the year 1.
CREATE TABLE queues (
  id BLOB PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  open_window TEXT NOT NULL,
  paths TEXT NOT NULL,
  tags TEXT NOT NULL,
  drain INTEGER NOT NULL,
  time_limit INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  relief BLOB,
  deleting INTEGER NOT NULL DEFAULT 0,
  arrivals INTEGER NOT NULL DEFAULT 0,
  pending INTEGER NOT NULL DEFAULT 0,
  running INTEGER NOT NULL DEFAULT 0,
  relieved_at INTEGER,
  look_at INTEGER
) STRICT;

CREATE INDEX queues_look ON queues (look_at, id) WHERE look_at IS NOT NULL;
CREATE INDEX queues_relief ON queues (relief) WHERE relief IS NOT NULL;

-- Where queues lie, each path of each queue.
CREATE TABLE queue_paths (
  path TEXT NOT NULL,
  queue BLOB NOT NULL,
  PRIMARY KEY (path, queue)
) STRICT, WITHOUT ROWID;

CREATE INDEX queue_paths_queue ON queue_paths (queue);

CREATE TABLE tasks (
  id BLOB PRIMARY KEY,
  queue BLOB NOT NULL,
  name TEXT NOT NULL,
  tags TEXT NOT NULL,
  priority INTEGER NOT NULL,
  not_before INTEGER NOT NULL,
  execution BLOB,
  inline BLOB,
  promise TEXT NOT NULL,
  arrival INTEGER NOT NULL,
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  run BLOB,
  arrived_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  fates TEXT NOT NULL
) STRICT;

CREATE INDEX tasks_first ON tasks (queue, priority DESC, arrival) WHERE status = 'Pending';
CREATE INDEX tasks_due ON tasks (queue, not_before, arrival) WHERE status = 'Pending';
CREATE INDEX tasks_running ON tasks (queue, started_at, arrival) WHERE status = 'Running';
CREATE INDEX tasks_ended ON tasks (ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX tasks_queue ON tasks (queue, id);
CREATE INDEX tasks_execution ON tasks (execution) WHERE ended_at IS NULL AND execution IS NOT NULL;
CREATE INDEX tasks_promising ON tasks (id) WHERE ended_at IS NULL AND promise <> '[]';

CREATE TABLE actions (
  id BLOB PRIMARY KEY,
  name TEXT NOT NULL,
  tags TEXT NOT NULL,
  content BLOB NOT NULL
) STRICT;

-- The queue that is always there, and does not change.
INSERT INTO queues (id, name, kind, open_window, paths, tags, drain, time_limit, depth)
VALUES (X'11111111111111111111111111111111', 'root', 'async', 'always', '[]', '[]', 0, 86400000000, 0);
