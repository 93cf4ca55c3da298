-- +goose Up

-- What requests were told that came past Kafka, by HTTP say, each in the transaction that did what it asked for: whoever
-- repeats a request gets the same answer, whichever node it reaches. A node of the release before takes no requests, and
-- does not look here.
--
-- Rows are inserted and deleted, never changed. A node deletes a few that have expired with each that it inserts, so
-- there are about as many as requests come in the time for which answers are kept: a day, where the client has named
-- the request, and ten minutes elsewhere.
CREATE TABLE answers (
  request         uuid        NOT NULL,
  print           uuid        NOT NULL,
  expires_at      timestamptz NOT NULL,
  outcome         text        NOT NULL,
  id              text        COLLATE "C" NOT NULL,
  lane            text        COLLATE "C" NOT NULL,
  incarnation     uuid,
  deadline        timestamptz,
  former_deadline timestamptz,
  sequence        bigint,
  may_appear      boolean     NOT NULL,
  lineage         bigint      NOT NULL,
  CONSTRAINT answers_pkey PRIMARY KEY (request)
);

CREATE INDEX answers_expiring ON answers (expires_at);

COMMENT ON TABLE answers IS 'What requests that came past Kafka were told, so that a repeated one is told the same.';
COMMENT ON COLUMN answers.request IS 'The name of the request: that of the client, made one of its own by its token.';
COMMENT ON COLUMN answers.print IS 'A hash of what was asked for, which tells it from another request of that name.';
COMMENT ON COLUMN answers.expires_at IS 'When the answer is not given any more, by the clock of this server.';
COMMENT ON COLUMN answers.incarnation IS 'That of the message after the request; null where there is none.';
COMMENT ON COLUMN answers.may_appear IS 'Content that was replaced may still come out.';

-- It is a queue: what is inserted is deleted soon after it has expired, and the dead rows must not gather before the
-- first one that is alive.
ALTER TABLE answers SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
