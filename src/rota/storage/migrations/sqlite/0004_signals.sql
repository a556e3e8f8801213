-- Signals: when this happens, do that. What matches is written down by the table of events itself,
-- in the transaction of the event, whichever statement wrote it: nothing is missed, nothing scanned.

CREATE TABLE work_signals (
  id             TEXT PRIMARY KEY NOT NULL,
  work_item_id   TEXT REFERENCES work_items (id),
  name           TEXT,
  trigger_kind   TEXT NOT NULL,
  trigger_spec   TEXT NOT NULL,
  action         TEXT NOT NULL,
  status         TEXT NOT NULL CHECK (status IN ('active', 'fired', 'cancelled', 'expired')),
  max_fires      INTEGER CHECK (max_fires >= 1),
  fires          INTEGER NOT NULL DEFAULT 0,
  max_depth      INTEGER NOT NULL DEFAULT 3 CHECK (max_depth >= 0),
  expires_at     TEXT,
  created_by     TEXT,
  configured     INTEGER NOT NULL DEFAULT 0 CHECK (configured IN (0, 1)),
  created_at     TEXT NOT NULL,
  updated_at     TEXT NOT NULL,
  last_fired_at  TEXT,
  last_fired_seq INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT fires_no_more_than_it_may CHECK (max_fires IS NULL OR fires <= max_fires)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_active_signal_of_a_name
  ON work_signals (name) WHERE name IS NOT NULL AND status = 'active';
CREATE INDEX work_signals_by_item ON work_signals (work_item_id) WHERE work_item_id IS NOT NULL;
CREATE INDEX work_signals_by_status ON work_signals (status, id);
CREATE INDEX work_signals_expiring
  ON work_signals (expires_at) WHERE status = 'active' AND expires_at IS NOT NULL;

-- What an active signal listens to, most selective first: 'item:ID:STATUS', 'project:ID:STATUS',
-- 'agent:NAME:STATUS', 'any:STATUS', 'run.finished:AGENT', 'run.finished:', 'source.event:'.
CREATE TABLE signal_keys (
  key       TEXT NOT NULL,
  signal_id TEXT NOT NULL REFERENCES work_signals (id),
  PRIMARY KEY (key, signal_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX signal_keys_by_signal ON signal_keys (signal_id);

CREATE TABLE work_signal_firings (
  id               TEXT PRIMARY KEY NOT NULL,
  signal_id        TEXT NOT NULL REFERENCES work_signals (id),
  dedupe_key       TEXT NOT NULL,
  event_seq        INTEGER,
  work_item_id     TEXT,
  status           TEXT NOT NULL
                   CHECK (status IN ('queued', 'processing', 'enqueued', 'skipped', 'failed')),
  attempt          INTEGER NOT NULL DEFAULT 0,
  next_attempt_at  TEXT NOT NULL,
  created_at       TEXT NOT NULL,
  lease_owner      TEXT,
  lease_expires_at TEXT,
  processed_at     TEXT,
  error            TEXT,
  result           TEXT NOT NULL DEFAULT '{}',
  CHECK ((status = 'processing') = (lease_owner IS NOT NULL)),
  CHECK ((lease_owner IS NULL) = (lease_expires_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_firing_per_cause ON work_signal_firings (signal_id, dedupe_key);
CREATE INDEX work_signal_firings_due
  ON work_signal_firings (next_attempt_at) WHERE status IN ('queued', 'processing');

CREATE TABLE work_item_tasks (
  id               TEXT PRIMARY KEY NOT NULL,
  work_item_id     TEXT NOT NULL REFERENCES work_items (id),
  signal_id        TEXT,
  firing_id        TEXT UNIQUE,
  title            TEXT NOT NULL,
  body             TEXT,
  status           TEXT NOT NULL CHECK (status IN ('open', 'leased', 'completed', 'cancelled')),
  agent            TEXT,  -- that it is meant for
  created_at       TEXT NOT NULL,
  holder           TEXT,  -- that has it, or had it last
  lease_token      TEXT,
  lease_expires_at TEXT,
  attempts         INTEGER NOT NULL DEFAULT 0,
  completed_at     TEXT,
  outcome          TEXT,
  notes            TEXT,
  CHECK ((status = 'leased') = (lease_token IS NOT NULL)),
  CHECK ((lease_token IS NULL) = (lease_expires_at IS NULL)),
  CHECK ((status IN ('completed', 'cancelled')) = (completed_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX work_item_tasks_by_item ON work_item_tasks (work_item_id);
CREATE INDEX work_item_tasks_open ON work_item_tasks (id) WHERE status IN ('open', 'leased');

-- Which item a signal made of which: loops are found along this line.
CREATE TABLE signal_lineage (
  work_item_id TEXT PRIMARY KEY NOT NULL REFERENCES work_items (id),
  parent_id    TEXT,
  signal_id    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER events_fire_signals AFTER INSERT ON events
WHEN (NEW.to_status IS NOT NULL OR NEW.type IN ('run.finished', 'source.event'))
  AND EXISTS (SELECT 1 FROM signal_keys)
BEGIN
  INSERT INTO work_signal_firings (id, signal_id, dedupe_key, event_seq, work_item_id, status,
                                   next_attempt_at, created_at)
  SELECT DISTINCT k.signal_id || ':' || NEW.seq, k.signal_id, 'event:' || NEW.seq, NEW.seq,
         NEW.work_item_id, 'queued', NEW.occurred_at, NEW.occurred_at
  FROM signal_keys k
  WHERE k.key IN ('item:' || NEW.work_item_id || ':' || NEW.to_status,
                  'project:' || NEW.project_id || ':' || NEW.to_status,
                  'agent:' || NEW.agent || ':' || NEW.to_status,
                  'any:' || NEW.to_status,
                  NEW.type || ':' || NEW.agent,
                  NEW.type || ':');
END;
