-- +goose Up

-- The line that a message stands in. The columns cost the rows that are there nothing; the two indexes, which hold few
-- rows, make the server read the table once, and meanwhile nobody else reads or writes it. As in version 4, this is given
-- up where a long transaction is in the way.
--
-- A node of the release before goes on beside this. What it takes in stands in no line, and it minds no line.
-- +goose StatementBegin
DO $$ BEGIN
  SET LOCAL lock_timeout = '3s';
  ALTER TABLE messages ADD COLUMN line uuid, ADD COLUMN behind boolean NOT NULL DEFAULT false;
EXCEPTION WHEN lock_not_available THEN
  RAISE EXCEPTION 'the table messages is in use by a long transaction, a backup perhaps: nothing was changed; '
    'wait until that has ended, and migrate again' USING ERRCODE = 'lock_not_available';
END $$;
-- +goose StatementEnd

COMMENT ON COLUMN messages.line IS
  'Messages of a lane with one line come out one after the other: a hash of the key; null for those that stand in none.';
COMMENT ON COLUMN messages.behind IS
  'The message has stood back in its line since it was stored or put off: it comes forward when it is the first.';

-- Who is first, and who is being served.
CREATE INDEX messages_line ON messages (line, lane, deadline, id) WHERE line IS NOT NULL;
CREATE INDEX messages_served ON messages (line, lane) WHERE line IS NOT NULL AND expires_at IS NOT NULL;
