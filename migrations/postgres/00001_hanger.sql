-- +goose Up

-- The names are those of the original description of Chronos, but for incarnation, topic, due_at and message_size.
-- Ids and topics are compared as bytes (COLLATE "C"): that is their order everywhere else in Chronos, and cheap.
CREATE TABLE hanger (
  id              varchar(128) COLLATE "C" NOT NULL,
  topic           varchar(249) COLLATE "C" NOT NULL,
  incarnation     uuid        NOT NULL,
  deadline        timestamptz NOT NULL,
  due_at          timestamptz NOT NULL,
  readied_at      timestamptz,
  readied_by      uuid,
  message_size    integer     NOT NULL,
  message_headers jsonb       NOT NULL,
  message_key     bytea,
  message_value   bytea,
  CONSTRAINT hanger_pkey PRIMARY KEY (id, topic),
  CONSTRAINT hanger_instants_are_finite CHECK (isfinite(deadline) AND isfinite(due_at)),
  CONSTRAINT hanger_claim_is_whole CHECK ((readied_at IS NULL) = (readied_by IS NULL))
);

COMMENT ON TABLE hanger IS
  'The messages of Chronos that have not fired yet. A row waits (readied_at is null) or is ready.';
COMMENT ON COLUMN hanger.id IS 'The application''s name for the message, unique for its topic while the row exists.';
COMMENT ON COLUMN hanger.topic IS 'The output topic that the message fires on.';
COMMENT ON COLUMN hanger.incarnation IS
  'Drawn at random for every insert: it tells this message from others that bear its id before or after it.';
COMMENT ON COLUMN hanger.deadline IS 'When the message is to appear on its topic.';
COMMENT ON COLUMN hanger.due_at IS
  'When to take it up: the deadline, or later once it could not be published.';
COMMENT ON COLUMN hanger.readied_at IS
  'Since when a node has claimed the message, by the clock of this server; null while it waits.';
COMMENT ON COLUMN hanger.readied_by IS 'The node id of that node.';
COMMENT ON COLUMN hanger.message_size IS 'The bytes of key, value, header names and header values together.';
COMMENT ON COLUMN hanger.message_headers IS
  'An array of objects with one pair each. Values that are not text are {"base64": "..."}.';
COMMENT ON COLUMN hanger.message_key IS 'The record''s key; null and empty differ.';
COMMENT ON COLUMN hanger.message_value IS 'The record''s value; null and empty differ.';

-- What falls due next. Its order is exactly the one that messages are claimed in, so that a claim reads as many rows
-- as it takes, also when a hundred thousand fall due at one instant.
CREATE INDEX hanger_waiting ON hanger (due_at, id, topic) WHERE readied_at IS NULL;

-- Which claims are the oldest.
CREATE INDEX hanger_ready ON hanger (readied_at) WHERE readied_at IS NOT NULL;

-- Every message leaves two dead rows behind, that of its claim and that of its delete, and every claim wades through
-- the dead entries at the front of hanger_waiting. So clean up at each visit of the autovacuum, and without its
-- pauses. The end of the table is not cut off, which would lock it: the space is for the next messages. Rows
-- are never updated within their page, since a claim moves them from one partial index to the other, so
-- that a fillfactor below 100 would buy nothing but a larger table.
ALTER TABLE hanger SET (
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_analyze_threshold = 5000,
  vacuum_truncate = false,
  toast.autovacuum_vacuum_scale_factor = 0.01,
  toast.autovacuum_vacuum_threshold = 5000,
  toast.autovacuum_vacuum_cost_delay = 0,
  toast.vacuum_truncate = false
);

-- Values of more than 2 kB are compressed. With lz4 that costs nothing to speak of; pglz, which every server has,
-- halves the throughput. A server that was built without lz4 stores them as they are.
-- +goose StatementBegin
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
    ALTER TABLE hanger ALTER COLUMN message_value SET COMPRESSION lz4;
  ELSE
    ALTER TABLE hanger ALTER COLUMN message_value SET STORAGE EXTERNAL;
  END IF;
END $$;
-- +goose StatementEnd
