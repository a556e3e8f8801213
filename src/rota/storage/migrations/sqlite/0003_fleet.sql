-- The fleet at work: processes, schedules, triggers, runs, what may not run now, and reports that
-- still have to be delivered.

-- One row per running `rota up`. Who has not been seen for a while is dead, and what it had open
-- is ended by the others.
CREATE TABLE nodes (
  id         TEXT PRIMARY KEY NOT NULL,
  place      TEXT NOT NULL,  -- host and state directory: there is one living process of a place
  pid        INTEGER NOT NULL,
  started_at TEXT NOT NULL,
  seen_at    TEXT NOT NULL,
  ended_at   TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
  agent             TEXT NOT NULL,
  name              TEXT NOT NULL,
  type              TEXT NOT NULL CHECK (type IN ('interval', 'cron', 'webhook', 'chat')),
  definition        TEXT NOT NULL,
  configured        INTEGER NOT NULL CHECK (configured IN (0, 1)),  -- what the file says
  enabled           INTEGER NOT NULL CHECK (enabled IN (0, 1)),     -- what holds
  next_at           TEXT,
  slot              TEXT,
  source            TEXT,  -- the type of what it takes work from
  last_run_at       TEXT,
  last_completed_at TEXT,
  last_error        TEXT,
  last_skip_reason  TEXT,
  last_skip_at      TEXT,
  last_skip_detail  TEXT,
  skip_count        INTEGER NOT NULL DEFAULT 0,
  trigger_count     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (agent, name),
  CONSTRAINT next_is_for_a_slot CHECK ((next_at IS NULL) = (slot IS NULL)),
  CONSTRAINT disabled_does_not_wake CHECK (enabled = 1 OR next_at IS NULL),
  CONSTRAINT only_clocks_wake_by_themselves
    CHECK (type IN ('interval', 'cron') OR next_at IS NULL)
) STRICT, WITHOUT ROWID;
-- This index is the scheduler: what is due stands at its beginning.
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE triggers (
  id           TEXT PRIMARY KEY NOT NULL,
  agent        TEXT NOT NULL,
  schedule     TEXT NOT NULL,
  slot         TEXT NOT NULL,
  kind         TEXT NOT NULL CHECK (kind IN ('schedule', 'manual', 'webhook', 'chat')),
  node         TEXT NOT NULL,
  triggered_at TEXT NOT NULL,
  message      TEXT,
  ended_at     TEXT,
  outcome      TEXT,  -- the status of its run, or why there was none
  error        TEXT,
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;
-- Restarts and several nodes never run one slot twice.
CREATE UNIQUE INDEX one_trigger_per_slot ON triggers (agent, schedule, slot);
CREATE INDEX triggers_open ON triggers (agent, schedule) WHERE ended_at IS NULL;
CREATE INDEX triggers_by_age ON triggers (triggered_at);

CREATE TABLE runs (
  id               TEXT PRIMARY KEY NOT NULL,
  agent            TEXT NOT NULL,
  schedule         TEXT,
  trigger_kind     TEXT NOT NULL
                   CHECK (trigger_kind IN ('schedule', 'manual', 'webhook', 'chat', 'worker')),
  trigger_id       TEXT,
  node             TEXT NOT NULL,
  work_item_id     TEXT,
  epoch            INTEGER,
  item_title       TEXT,
  attempt          INTEGER,
  started_at       TEXT NOT NULL,
  ended_at         TEXT,
  status           TEXT NOT NULL
                   CHECK (status IN ('running', 'succeeded', 'failed', 'partial', 'timed_out',
                                     'cancelled', 'claim_lost', 'lost')),
  summary          TEXT,
  artifacts        TEXT NOT NULL DEFAULT '[]',
  error            TEXT,
  exit_code        INTEGER,
  session_id       TEXT,
  input_tokens     INTEGER NOT NULL DEFAULT 0,
  output_tokens    INTEGER NOT NULL DEFAULT 0,
  cost_usd         REAL,
  turns            INTEGER,
  seconds          REAL,
  hook_errors      TEXT NOT NULL DEFAULT '[]',
  cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
  CHECK ((status = 'running') = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_open ON runs (agent) WHERE ended_at IS NULL;
CREATE INDEX runs_by_agent ON runs (agent, started_at);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_item ON runs (work_item_id) WHERE work_item_id IS NOT NULL;

-- An ended run stays as it ended.
CREATE TRIGGER runs_end_once BEFORE UPDATE ON runs WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a run ends once'); END;

-- Why an agent may not run now: failures in a row, or a quota that is used up.
CREATE TABLE agent_limits (
  agent         TEXT PRIMARY KEY NOT NULL,
  failures      INTEGER NOT NULL DEFAULT 0,  -- in a row
  breaker_until TEXT,
  usage_until   TEXT,
  note          TEXT,
  updated_at    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What must still leave the database. A row is taken for a while by pushing its next attempt out,
-- so that whoever dies over it only delays it.
CREATE TABLE outbox (
  id              TEXT PRIMARY KEY NOT NULL,
  kind            TEXT NOT NULL,
  agent           TEXT,
  subject         TEXT NOT NULL,
  payload         TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  attempts        INTEGER NOT NULL DEFAULT 0,
  next_attempt_at TEXT NOT NULL,
  delivered_at    TEXT,
  failed_at       TEXT,
  error           TEXT,
  CHECK (delivered_at IS NULL OR failed_at IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox (next_attempt_at)
  WHERE delivered_at IS NULL AND failed_at IS NULL;
