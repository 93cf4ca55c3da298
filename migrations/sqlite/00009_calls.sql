-- +goose Up

-- When the callbacks have ended that were under way before the lineage began: until then nothing is claimed on callback
-- lanes. A node of the release before, which does not know of this column, sets claims_from late enough.
ALTER TABLE lineage ADD COLUMN calls_from INTEGER NOT NULL DEFAULT -9223372036854775808;
