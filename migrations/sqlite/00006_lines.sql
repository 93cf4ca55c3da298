-- +goose Up

-- The line that the message stands in: messages of a lane with one line come out one after the other. NULL for none,
-- as for all that were stored before.
ALTER TABLE messages ADD COLUMN line BLOB;

-- 1 when the message has stood back in its line since it was stored or put off: it comes forward when it is the first.
ALTER TABLE messages ADD COLUMN behind INTEGER NOT NULL DEFAULT 0;

CREATE INDEX messages_line ON messages (line, lane, deadline, id) WHERE line IS NOT NULL;
