-- +goose Up

-- The paths of queues that an import has brought, which are missing in Postgres. A file has them all: this step is here
-- so that both kinds of databases have the same versions.
INSERT INTO queue_paths (path, queue) SELECT u.value, q.id FROM queues AS q, json_each(q.paths) AS u WHERE true
ON CONFLICT DO NOTHING;
