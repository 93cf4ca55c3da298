-- +goose Up

-- What instructions leave behind on a message, and which occurrence of a series it is. The defaults are constants,
-- which the catalogue keeps for the rows that are there already, so that none of them is written.
--
-- The table is locked for a moment only, but the lock has to be granted first, and while a long transaction is in the
-- way (pg_dump, say) everybody else queues behind whoever waits for it. So this is given up after three seconds, and
-- has changed nothing then. That is longer than the server lets an autovacuum of its own be in the way.
--
-- A node of the release before goes on beside this. It neither reads nor writes these columns: what it inserts has the
-- defaults, and what is bound stays so when it claims the row, gives it back or puts it off. But it deletes an
-- occurrence that it has published, and with it the series.
-- +goose StatementBegin
DO $$ BEGIN
  SET LOCAL lock_timeout = '3s';
  ALTER TABLE messages
    ADD COLUMN not_after timestamptz,
    ADD COLUMN bound boolean NOT NULL DEFAULT false,
    ADD COLUMN former boolean NOT NULL DEFAULT false,
    ADD COLUMN series text,
    ADD COLUMN sequence bigint,
    ADD COLUMN occurs_at timestamptz,
    ADD COLUMN stopped boolean NOT NULL DEFAULT false;
EXCEPTION WHEN lock_not_available THEN
  RAISE EXCEPTION 'the table messages is in use by a long transaction, a backup perhaps: nothing was changed; '
    'wait until that has ended, and migrate again' USING ERRCODE = 'lock_not_available';
END $$;
-- +goose StatementEnd

COMMENT ON COLUMN messages.not_after IS
  'The last instant at which the message may be published; null for no end. Later it is dead-lettered.';
COMMENT ON COLUMN messages.bound IS
  'An outcome was given (too_late or fired) that says that this incarnation comes out: only a replace takes it over.';
COMMENT ON COLUMN messages.former IS
  'Content that this message has replaced may still come out, because it had been claimed.';
COMMENT ON COLUMN messages.series IS 'What recurs; null for a message that comes out once.';
COMMENT ON COLUMN messages.sequence IS 'The number of the occurrence in its series, from 1; null where there is none.';
COMMENT ON COLUMN messages.occurs_at IS
  'The instant of the series, from which the next one follows: the deadline, unless an instruction has moved that.';
COMMENT ON COLUMN messages.stopped IS 'The series was cancelled while this occurrence was out: no other one follows.';
