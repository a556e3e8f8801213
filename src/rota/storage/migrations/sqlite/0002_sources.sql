-- Items that come from outside: an issue of a tracker, a line of a file. They are taken through
-- their source alone, so what a claim reads does not carry them.

-- Who put the hold on: nobody named is an operator; 'source' is the item's own source, which alone
-- may take it off again.
ALTER TABLE work_items ADD COLUMN hold_by TEXT CONSTRAINT held_by_its_source CHECK (
  hold_by IS NULL OR (hold_by = 'source' AND hold_reason IS NOT NULL AND source IS NOT NULL));

-- One of the items of a reference is live at most: an issue that is reopened gives a new item, and
-- the old one stays as it ended.
DROP INDEX one_item_per_source_ref;
CREATE UNIQUE INDEX one_live_item_per_source_ref
  ON work_items (source, source_ref) WHERE source IS NOT NULL AND completed_at IS NULL;
CREATE INDEX work_items_by_source
  ON work_items (source, source_ref) WHERE source IS NOT NULL;

DROP INDEX work_items_ready;
CREATE INDEX work_items_ready
  ON work_items (priority, id)
  WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0 AND source IS NULL;
DROP INDEX work_items_ready_by_type;
CREATE INDEX work_items_ready_by_type
  ON work_items (type, priority, id)
  WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0 AND source IS NULL;

-- In two halves, because a claim within a project reads the first one only.
DROP INDEX work_items_by_project;
CREATE INDEX work_items_by_project
  ON work_items (project_id, status, priority, id)
  WHERE project_id IS NOT NULL AND source IS NULL;
CREATE INDEX work_items_by_project_outside
  ON work_items (project_id, status, priority, id)
  WHERE project_id IS NOT NULL AND source IS NOT NULL;

-- What we have written into the claim logs of trackers. A row stays open for as long as the
-- tracker shows the claim, whatever has become of the ledger's own.
CREATE TABLE source_claims (
  firing_id    TEXT PRIMARY KEY NOT NULL,
  source       TEXT NOT NULL,
  source_ref   TEXT NOT NULL,
  work_item_id TEXT NOT NULL REFERENCES work_items (id),
  epoch        INTEGER NOT NULL,
  codename     TEXT NOT NULL,
  fleet        TEXT NOT NULL,
  nonce        TEXT NOT NULL,
  entry_id     INTEGER,  -- unknown until the tracker has answered
  created_at   TEXT NOT NULL,
  ended_at     TEXT,
  outcome      TEXT,
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX source_claims_open ON source_claims (source, source_ref) WHERE ended_at IS NULL;

-- Which text of an issue a trusted person has agreed to.
CREATE TABLE approvals (
  source      TEXT NOT NULL,
  source_ref  TEXT NOT NULL,
  text_hash   TEXT NOT NULL,
  approved_by INTEGER NOT NULL,  -- the number of an account; names can be taken over
  approved_at TEXT NOT NULL,
  seen_at     TEXT NOT NULL,
  PRIMARY KEY (source, source_ref, text_hash)
) STRICT, WITHOUT ROWID;

-- Webhook deliveries that were acted on, so that a repeated one is not.
CREATE TABLE deliveries (
  id          TEXT PRIMARY KEY NOT NULL,
  received_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_by_age ON deliveries (received_at);

-- How each source stands, for people to see.
CREATE TABLE source_states (
  source         TEXT PRIMARY KEY NOT NULL,
  polled_at      TEXT,
  poll_error     TEXT,
  swept_at       TEXT,
  warning        TEXT,
  settle_seconds REAL,  -- set once the usual wait of a claim was found too short here
  requests       INTEGER NOT NULL DEFAULT 0,
  rate_remaining INTEGER,
  rate_limit     INTEGER,
  rate_reset_at  TEXT
) STRICT, WITHOUT ROWID;

-- Who we are to other fleets: made once, by the first who asks. Never a host's or an agent's name.
CREATE TABLE fleet (
  only_one INTEGER PRIMARY KEY NOT NULL CHECK (only_one = 1),
  id       TEXT NOT NULL
) STRICT;
