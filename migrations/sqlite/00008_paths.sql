-- +goose Up

-- The paths of queues that an import has brought, which are missing in Postgres. A file has them all: this step is here
-- so that both kinds of databases have the same versions.
INSERT INTO queue_paths (path, queue) SELECT u.value, q.id FROM queues AS q, json_each(q.paths) AS u WHERE true
ON CONFLICT DO NOTHING;

-- When the callbacks have ended that were under way before the lineage began: until then nothing is claimed on callback
-- lanes. A node of the release before, which does not know of this column, sets claims_from late enough.
ALTER TABLE lineage ADD COLUMN calls_from INTEGER NOT NULL DEFAULT -9223372036854775808;

-- The part of its lane on which a message is parked, an output partition or a host; empty if it is not. What waits is in
-- the order of parts within its lane.
ALTER TABLE messages ADD COLUMN part TEXT NOT NULL DEFAULT '';

DROP INDEX messages_waiting;
CREATE INDEX messages_waiting ON messages (lane, part, due_at, id) WHERE readied_at IS NULL;

-- What was put off, which is overdue since its deadline.
CREATE INDEX messages_deferred ON messages (lane, deadline, due_at) WHERE due_at > deadline;
