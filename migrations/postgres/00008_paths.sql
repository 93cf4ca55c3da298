-- +goose Up

-- The paths of queues that an import has brought. It wrote them to queues.paths, and not to queue_paths: so no queue
-- was contained by another one, and a task could start although the queue around its own was closed. What is missing is
-- written. A queue whose paths are missing may wait for something that nobody has told it of: it is looked after at
-- once, if tasks wait in it, as touchStatement of node/store/postgres has it.
--
-- Nobody defines queues meanwhile, which is a moment (defineStatement there). A node of the release before goes on
-- beside this. In a database that was not filled by an import nothing is missing.
LOCK TABLE queue_paths IN SHARE ROW EXCLUSIVE MODE;

UPDATE queues SET look_at = now() WHERE id = ANY (ARRAY(
  SELECT q.id FROM queues AS q
  WHERE q.pending > 0 AND EXISTS (
    SELECT FROM unnest(q.paths) AS u (path)
    WHERE NOT EXISTS (SELECT FROM queue_paths AS p WHERE p.queue = q.id AND p.path = u.path)
  )
  ORDER BY q.id FOR UPDATE
));

INSERT INTO queue_paths (path, queue)
SELECT u.path, q.id FROM queues AS q CROSS JOIN LATERAL unnest(q.paths) AS u (path)
ON CONFLICT DO NOTHING;

-- When the callbacks have ended that were under way before the lineage began: until then nothing is claimed on callback
-- lanes. A node of the release before, which does not know of this column, sets the gate of all lanes late enough.
ALTER TABLE store ADD COLUMN calls_gate timestamptz NOT NULL DEFAULT '-infinity';

COMMENT ON COLUMN store.calls_gate IS 'When callbacks from before the lineage have ended.';

-- The part of its lane on which a message is parked, and the order of what waits: by part within the lane. The column
-- costs the rows that are there nothing. The index is made anew, for which the server reads the table once, and
-- meanwhile nobody else reads or writes it. As in version 6, this is given up where a long transaction is in the way.
--
-- A node of the release before goes on beside this. It finds parked messages by their lane, and when it gives one back
-- leaves it where it is. It reads the whole lane in the index for each claim, and sorts that.
-- +goose StatementBegin
DO $$ BEGIN
  SET LOCAL lock_timeout = '3s';
  ALTER TABLE messages ADD COLUMN part text COLLATE "C" NOT NULL DEFAULT '';
EXCEPTION WHEN lock_not_available THEN
  RAISE EXCEPTION 'the table messages is in use by a long transaction, a backup perhaps: nothing was changed; '
    'wait until that has ended, and migrate again' USING ERRCODE = 'lock_not_available';
END $$;
-- +goose StatementEnd

COMMENT ON COLUMN messages.part IS
  'The part of the lane on which the message is parked, an output partition or a host; empty if it is not.';

DROP INDEX messages_waiting;
CREATE INDEX messages_waiting ON messages (lane, part, due_at, id) WHERE readied_at IS NULL;

-- What was put off: how long it is overdue is counted from its deadline, and not from the next try. Most messages are
-- never put off, and have no entry here. The condition is written so that no statement which compares the two columns
-- is led here.
CREATE INDEX messages_deferred ON messages (lane, deadline, due_at) WHERE due_at - deadline > interval '0';
