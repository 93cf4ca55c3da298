-- +goose Up

-- When the callbacks have ended that were under way before the lineage began: until then nothing is claimed on callback
-- lanes. A node of the release before, which does not know of this column, sets the gate of all lanes late enough.
ALTER TABLE store ADD COLUMN calls_gate timestamptz NOT NULL DEFAULT '-infinity';

COMMENT ON COLUMN store.calls_gate IS 'When callbacks from before the lineage have ended.';
