-- The ledger: projects, work items, dispatch log, claims, events, and who may call.
-- Times are fixed-width UTC text, ids are UUIDv7 text, JSON is text.

CREATE TABLE projects (
  id           TEXT PRIMARY KEY NOT NULL,
  name         TEXT NOT NULL,
  external_ref TEXT,
  created_at   TEXT NOT NULL,
  updated_at   TEXT NOT NULL
) STRICT;

CREATE TABLE agents (
  name           TEXT PRIMARY KEY NOT NULL,
  max_concurrent INTEGER NOT NULL DEFAULT 1 CHECK (max_concurrent BETWEEN 1 AND 1000),
  paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  created_at     TEXT NOT NULL,
  updated_at     TEXT NOT NULL
) STRICT;

CREATE TABLE work_items (
  id             TEXT PRIMARY KEY NOT NULL,
  project_id     TEXT REFERENCES projects (id),
  type           TEXT NOT NULL,
  description    TEXT NOT NULL,
  body           TEXT,
  payload        TEXT,
  priority       INTEGER NOT NULL DEFAULT 3 CHECK (priority BETWEEN 1 AND 5),
  status         TEXT NOT NULL
                 CHECK (status IN ('queued', 'dispatched', 'in_progress', 'blocked',
                                   'in_review', 'completed', 'failed', 'cancelled')),
  reason         TEXT,
  assigned_agent TEXT,
  pinned         INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),  -- named by a person
  slot           INTEGER,
  created_by     TEXT,
  created_at     TEXT NOT NULL,
  updated_at     TEXT NOT NULL,
  completed_at   TEXT,
  outcome        TEXT,
  notes          TEXT,
  labels         TEXT NOT NULL DEFAULT '[]',
  artifact_url   TEXT,
  attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  max_attempts   INTEGER NOT NULL DEFAULT 3 CHECK (max_attempts >= 1),
  available_at   TEXT,
  deferred       INTEGER NOT NULL DEFAULT 0 CHECK (deferred IN (0, 1)),
  hold_reason    TEXT,
  open_blockers  INTEGER NOT NULL DEFAULT 0 CHECK (open_blockers >= 0),
  dependents     INTEGER NOT NULL DEFAULT 0 CHECK (dependents >= 0),
  epoch          INTEGER NOT NULL DEFAULT 0,
  claim_token    TEXT,
  lease_expires_at TEXT,
  heartbeat_at   TEXT,
  progress       TEXT,
  version        INTEGER NOT NULL DEFAULT 1,
  source         TEXT,
  source_ref     TEXT,
  came_from      TEXT,

  CONSTRAINT terminal_has_an_end CHECK (
    (status IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)),
  CONSTRAINT outcome_fits_status CHECK (
    CASE status WHEN 'completed' THEN outcome IS 'success'
                WHEN 'failed'    THEN outcome IS 'failed'
                WHEN 'cancelled' THEN outcome IS 'cancelled'
                ELSE outcome IS NULL END),
  CONSTRAINT worked_by_somebody CHECK (
    status NOT IN ('dispatched', 'in_progress') OR assigned_agent IS NOT NULL),
  CONSTRAINT slot_while_in_progress CHECK ((status = 'in_progress') = (slot IS NOT NULL)),
  -- The live claim's token stands in the row itself, so that one guarded statement can compare it.
  CONSTRAINT claimed_while_in_progress CHECK (claim_token IS NULL OR status = 'in_progress'),
  CONSTRAINT claimed_for_a_time CHECK ((claim_token IS NULL) = (lease_expires_at IS NULL))
) STRICT, WITHOUT ROWID;  -- every index ends in the id anyway; this saves one tree and one step

-- One in_progress item per agent and slot: the promise, kept by the table itself.
CREATE UNIQUE INDEX one_in_progress_per_slot
  ON work_items (assigned_agent, slot) WHERE status = 'in_progress';
CREATE UNIQUE INDEX one_item_per_source_ref
  ON work_items (source, source_ref) WHERE source IS NOT NULL;

-- Ids are in the order of creation, so they serve as age in every index: each move of an item
-- touches several of these trees, and the shorter their keys, the better.

-- What a claim reads: only items that anybody may take now, in the order they are taken.
CREATE INDEX work_items_ready
  ON work_items (priority, id)
  WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0;
-- The same by type, so that an agent that takes one rare type does not wade through the others.
CREATE INDEX work_items_ready_by_type
  ON work_items (type, priority, id)
  WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0;
CREATE INDEX work_items_by_status ON work_items (status, priority, id);
CREATE INDEX work_items_by_agent
  ON work_items (assigned_agent, status, priority, id)
  WHERE assigned_agent IS NOT NULL AND completed_at IS NULL;
CREATE INDEX work_items_by_project
  ON work_items (project_id, status, priority, id) WHERE project_id IS NOT NULL;
CREATE INDEX work_items_by_end
  ON work_items (status, completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX work_items_by_lease
  ON work_items (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
CREATE INDEX work_items_deferred ON work_items (available_at) WHERE deferred = 1;

CREATE TABLE work_item_labels (
  label        TEXT NOT NULL,
  work_item_id TEXT NOT NULL REFERENCES work_items (id),
  PRIMARY KEY (label, work_item_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX work_item_labels_by_item ON work_item_labels (work_item_id);

CREATE TABLE work_item_links (
  work_item_id TEXT NOT NULL REFERENCES work_items (id),
  blocker_id   TEXT NOT NULL REFERENCES work_items (id) CHECK (blocker_id <> work_item_id),
  PRIMARY KEY (work_item_id, blocker_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX work_item_links_by_blocker ON work_item_links (blocker_id);

CREATE TABLE dispatch_log (
  id           TEXT PRIMARY KEY NOT NULL,
  work_item_id TEXT NOT NULL REFERENCES work_items (id),
  dispatched_at TEXT NOT NULL,
  agent        TEXT NOT NULL,
  completed_at TEXT,
  outcome      TEXT CHECK (outcome IN ('success', 'failed', 'cancelled', 'released')),
  CHECK ((completed_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX dispatch_log_by_item ON dispatch_log (work_item_id, dispatched_at);

CREATE TRIGGER dispatch_log_closes_once BEFORE UPDATE ON dispatch_log
WHEN OLD.completed_at IS NOT NULL OR NEW.completed_at IS NULL
  OR NEW.id IS NOT OLD.id OR NEW.work_item_id IS NOT OLD.work_item_id
  OR NEW.dispatched_at IS NOT OLD.dispatched_at OR NEW.agent IS NOT OLD.agent
BEGIN SELECT RAISE(ABORT, 'dispatch_log is append-only: a row may be closed once'); END;
CREATE TRIGGER dispatch_log_keeps BEFORE DELETE ON dispatch_log
BEGIN SELECT RAISE(ABORT, 'dispatch_log is append-only'); END;

-- Every claim ever made, so that a former holder is known when it comes back. Which one is live,
-- and how long, stands in the item's row.
CREATE TABLE claims (
  work_item_id  TEXT NOT NULL REFERENCES work_items (id),
  epoch         INTEGER NOT NULL,
  token         TEXT NOT NULL,
  agent         TEXT NOT NULL,
  slot          INTEGER NOT NULL,
  claimed_at    TEXT NOT NULL,
  lease_seconds REAL NOT NULL,
  PRIMARY KEY (work_item_id, epoch)
) STRICT, WITHOUT ROWID;

-- No foreign keys here: history may outlive what it tells of.
CREATE TABLE events (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  type         TEXT NOT NULL,
  occurred_at  TEXT NOT NULL,
  actor        TEXT,
  work_item_id TEXT,
  project_id   TEXT,
  agent        TEXT,
  reason       TEXT,
  from_status  TEXT,
  to_status    TEXT,
  epoch        INTEGER,
  data         TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX events_by_item ON events (work_item_id, seq) WHERE work_item_id IS NOT NULL;

CREATE TRIGGER events_do_not_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_do_not_go BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TABLE idempotency_keys (
  key          TEXT PRIMARY KEY NOT NULL,
  request_hash TEXT NOT NULL,
  item_ids     TEXT NOT NULL,
  created_at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE api_tokens (
  id           TEXT PRIMARY KEY NOT NULL,
  name         TEXT NOT NULL,
  secret_hash  TEXT NOT NULL UNIQUE,
  scopes       TEXT NOT NULL,
  created_at   TEXT NOT NULL,
  expires_at   TEXT,
  revoked_at   TEXT,
  last_used_at TEXT
) STRICT;
