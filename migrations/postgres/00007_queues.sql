-- +goose Up

-- Queues, their tasks, and the actions that tasks name: see package node/queue. Nothing that was there is touched, so
-- this waits for nobody, and a node of the release before goes on beside it. What a task asks for is a message as any
-- other, and such a node requests it like one, but replaces no tags in it and tells nobody of its end. So make queues
-- when all nodes are of this release.
CREATE TABLE queues (
  id          uuid        NOT NULL,
  name        text        COLLATE "C" NOT NULL,
  kind        text        NOT NULL,
  open_window text        NOT NULL,
  paths       text[]      NOT NULL,
  tags        text[]      NOT NULL,
  drain       boolean     NOT NULL,
  time_limit  bigint      NOT NULL,
  depth       integer     NOT NULL,
  relief      uuid,
  deleting    boolean     NOT NULL DEFAULT false,
  arrivals    bigint      NOT NULL DEFAULT 0,
  pending     bigint      NOT NULL DEFAULT 0,
  running     bigint      NOT NULL DEFAULT 0,
  relieved_at timestamptz,
  look_at     timestamptz,
  CONSTRAINT queues_pkey PRIMARY KEY (id),
  CONSTRAINT queues_name UNIQUE (name)
) WITH (fillfactor = 50);

CREATE INDEX queues_look ON queues (look_at, id) WHERE look_at IS NOT NULL;
CREATE INDEX queues_relief ON queues (relief) WHERE relief IS NOT NULL;

COMMENT ON TABLE queues IS 'Queues. Whoever changes a task has locked the row of its queue.';
COMMENT ON COLUMN queues.open_window IS 'When it is open, in words.';
COMMENT ON COLUMN queues.time_limit IS 'How long a task may run, in microseconds.';
COMMENT ON COLUMN queues.arrivals IS 'How many tasks have ever come.';
COMMENT ON COLUMN queues.look_at IS 'When something may next have to happen to it by itself; null for not.';

-- Where queues lie, each path of each queue: for those that contain a queue, and those that lie inside it.
CREATE TABLE queue_paths (
  path  text COLLATE "C" NOT NULL,
  queue uuid NOT NULL,
  CONSTRAINT queue_paths_pkey PRIMARY KEY (path, queue)
);
CREATE INDEX queue_paths_queue ON queue_paths (queue);

COMMENT ON TABLE queue_paths IS 'The paths of queues: those in queues.paths once more, to be looked up.';

CREATE TABLE tasks (
  id         uuid        NOT NULL,
  queue      uuid        NOT NULL,
  name       text        NOT NULL,
  tags       text[]      NOT NULL,
  priority   integer     NOT NULL,
  not_before timestamptz NOT NULL,
  execution  uuid,
  inline     bytea,
  promise    uuid[]      NOT NULL,
  arrival    bigint      NOT NULL,
  status     text        NOT NULL,
  reason     text        NOT NULL,
  run        uuid,
  arrived_at timestamptz NOT NULL,
  started_at timestamptz,
  ended_at   timestamptz,
  fates      text        NOT NULL,
  CONSTRAINT tasks_pkey PRIMARY KEY (id)
);

CREATE INDEX tasks_first ON tasks (queue, priority DESC, arrival) WHERE status = 'Pending';
CREATE INDEX tasks_due ON tasks (queue, not_before, arrival) WHERE status = 'Pending';
CREATE INDEX tasks_running ON tasks (queue, started_at, arrival) WHERE status = 'Running';
CREATE INDEX tasks_ended ON tasks (ended_at, id) WHERE ended_at IS NOT NULL;
-- By the id as a text, whose order is the same: an index that had the id itself would be taken for the primary key, where
-- the table was found empty.
CREATE INDEX tasks_queue ON tasks (queue, (id::text COLLATE "C"));
CREATE INDEX tasks_execution ON tasks (execution) WHERE ended_at IS NULL AND execution IS NOT NULL;
CREATE INDEX tasks_promising ON tasks (id) WHERE ended_at IS NULL AND promise <> '{}';

COMMENT ON TABLE tasks IS 'The tasks of queues, with those that are done, for the retention.';
COMMENT ON COLUMN tasks.not_before IS 'In an async queue it does not run before; the year 1 for at once.';
COMMENT ON COLUMN tasks.inline IS 'An action of its own, encoded, in place of execution.';
COMMENT ON COLUMN tasks.run IS 'The one time that it has run: what a completion is about.';
COMMENT ON COLUMN tasks.fates IS 'A letter for each action of the promise: open ., done d, broken b.';

-- Tasks come and go like messages, and the dead rows must not gather before the first one that is alive.
ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE queues SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE actions (
  id      uuid   NOT NULL,
  name    text   NOT NULL,
  tags    text[] NOT NULL,
  content bytea  NOT NULL,
  CONSTRAINT actions_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE actions IS 'What tasks ask for: a request, or a record.';
COMMENT ON COLUMN actions.content IS 'URI, method, topic, headers, key and payload, encoded.';

-- The queue that is always there, and does not change.
INSERT INTO queues (id, name, kind, open_window, paths, tags, drain, time_limit, depth)
VALUES ('11111111-1111-1111-1111-111111111111', 'root', 'async', 'always', '{}', '{}', false, 86400000000, 0);
