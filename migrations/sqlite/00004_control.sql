-- +goose Up

-- What instructions decide on and leave behind. The messages that are there have nothing of it, because nothing of it
-- was possible before: no outcome has bound them, they have replaced nothing, and they have no last instant. How many
-- claims may have led to a publish is counted since version 2.

-- The last instant at which the message may be published. NULL for no end.
ALTER TABLE messages ADD COLUMN not_after INTEGER;

-- 1 when somebody was told that the message comes out, so that only a replacement keeps it from that.
ALTER TABLE messages ADD COLUMN bound INTEGER NOT NULL DEFAULT 0;

-- 1 when content that the message has replaced may still come out.
ALTER TABLE messages ADD COLUMN former INTEGER NOT NULL DEFAULT 0;

-- Which occurrence of a series the message is: the series as package calendar writes it, the number of the occurrence,
-- and its instant. NULL for a message that comes out once.
ALTER TABLE messages ADD COLUMN series TEXT;
ALTER TABLE messages ADD COLUMN sequence INTEGER;
ALTER TABLE messages ADD COLUMN occurs_at INTEGER;

-- 1 when the series was cancelled while this occurrence could not be kept from coming out: none follows it.
ALTER TABLE messages ADD COLUMN stopped INTEGER NOT NULL DEFAULT 0;
