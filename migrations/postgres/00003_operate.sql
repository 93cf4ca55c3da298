-- +goose Up

-- What somebody has paused. The claims look here in their own statement, so that no node can be behind; so do the takes
-- where the intake is concerned. An earlier release does not look: it goes on claiming.
CREATE TABLE pauses (
  lane      text        COLLATE "C" NOT NULL,
  since     timestamptz NOT NULL,
  paused_by text        NOT NULL,
  reason    text        NOT NULL,
  CONSTRAINT pauses_pkey PRIMARY KEY (lane)
);

COMMENT ON TABLE pauses IS 'The lanes on which nothing is claimed, and whether anything is taken in.';
COMMENT ON COLUMN pauses.lane IS 'The lane; empty for the intake of all topics, because no lane has an empty name.';
COMMENT ON COLUMN pauses.since IS 'When it was paused, by the clock of this server.';

-- Which nodes there are, for people. Nothing in the algorithm depends on it.
CREATE TABLE nodes (
  id       uuid        NOT NULL,
  host     text        NOT NULL,
  version  text        NOT NULL,
  started  timestamptz NOT NULL,
  seen     timestamptz NOT NULL,
  settings jsonb       NOT NULL,
  status   jsonb       NOT NULL,
  CONSTRAINT nodes_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE nodes IS 'The nodes that have been seen lately. Each writes its row every other second.';
COMMENT ON COLUMN nodes.started IS 'When the process began, and seen when it wrote last, by the clock of this server.';
COMMENT ON COLUMN nodes.settings IS 'What the node was told, without secrets.';
COMMENT ON COLUMN nodes.status IS 'How the node is: what is out, and the last error of each lane.';

-- A row is written again every other second, for weeks. There is room for that in its page, and no index has a column
-- that changes, so that the dead versions are swept up by the next write.
ALTER TABLE nodes SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
