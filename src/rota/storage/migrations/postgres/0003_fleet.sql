-- The fleet at work: processes, schedules, triggers, runs, what may not run now, and reports that
-- still have to be delivered.

-- One row per running `rota up`. Who has not been seen for a while is dead, and what it had open
-- is ended by the others.
CREATE TABLE nodes (
  id         text COLLATE "C" PRIMARY KEY NOT NULL,
  place      text COLLATE "C" NOT NULL,  -- host and state directory: there is one living process of a place
  pid        bigint NOT NULL,
  started_at text COLLATE "C" NOT NULL,
  seen_at    text COLLATE "C" NOT NULL,
  ended_at   text COLLATE "C"
);

CREATE TABLE schedules (
  agent             text COLLATE "C" NOT NULL,
  name              text COLLATE "C" NOT NULL,
  type              text COLLATE "C" NOT NULL CHECK (type IN ('interval', 'cron', 'webhook', 'chat')),
  definition        text COLLATE "C" NOT NULL,
  configured        integer NOT NULL CHECK (configured IN (0, 1)),  -- what the file says
  enabled           integer NOT NULL CHECK (enabled IN (0, 1)),     -- what holds
  next_at           text COLLATE "C",
  slot              text COLLATE "C",
  source            text COLLATE "C",  -- the type of what it takes work from
  last_run_at       text COLLATE "C",
  last_completed_at text COLLATE "C",
  last_error        text COLLATE "C",
  last_skip_reason  text COLLATE "C",
  last_skip_at      text COLLATE "C",
  last_skip_detail  text COLLATE "C",
  skip_count        bigint NOT NULL DEFAULT 0,
  trigger_count     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (agent, name),
  CONSTRAINT next_is_for_a_slot CHECK ((next_at IS NULL) = (slot IS NULL)),
  CONSTRAINT disabled_does_not_wake CHECK (enabled = 1 OR next_at IS NULL),
  CONSTRAINT only_clocks_wake_by_themselves
    CHECK (type IN ('interval', 'cron') OR next_at IS NULL)
);
-- This index is the scheduler: what is due stands at its beginning.
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE triggers (
  id           text COLLATE "C" PRIMARY KEY NOT NULL,
  agent        text COLLATE "C" NOT NULL,
  schedule     text COLLATE "C" NOT NULL,
  slot         text COLLATE "C" NOT NULL,
  kind         text COLLATE "C" NOT NULL CHECK (kind IN ('schedule', 'manual', 'webhook', 'chat')),
  node         text COLLATE "C" NOT NULL,
  triggered_at text COLLATE "C" NOT NULL,
  message      text COLLATE "C",
  ended_at     text COLLATE "C",
  outcome      text COLLATE "C",  -- the status of its run, or why there was none
  error        text COLLATE "C",
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
-- Restarts and several nodes never run one slot twice.
CREATE UNIQUE INDEX one_trigger_per_slot ON triggers (agent, schedule, slot);
CREATE INDEX triggers_open ON triggers (agent, schedule) WHERE ended_at IS NULL;
CREATE INDEX triggers_by_age ON triggers (triggered_at);

CREATE TABLE runs (
  id               text COLLATE "C" PRIMARY KEY NOT NULL,
  agent            text COLLATE "C" NOT NULL,
  schedule         text COLLATE "C",
  trigger_kind     text COLLATE "C" NOT NULL
                   CHECK (trigger_kind IN ('schedule', 'manual', 'webhook', 'chat', 'worker')),
  trigger_id       text COLLATE "C",
  node             text COLLATE "C" NOT NULL,
  work_item_id     text COLLATE "C",
  epoch            integer,
  item_title       text COLLATE "C",
  attempt          integer,
  started_at       text COLLATE "C" NOT NULL,
  ended_at         text COLLATE "C",
  status           text COLLATE "C" NOT NULL
                   CHECK (status IN ('running', 'succeeded', 'failed', 'partial', 'timed_out',
                                     'cancelled', 'claim_lost', 'lost')),
  summary          text COLLATE "C",
  artifacts        text COLLATE "C" NOT NULL DEFAULT '[]',
  error            text COLLATE "C",
  exit_code        integer,
  session_id       text COLLATE "C",
  input_tokens     bigint NOT NULL DEFAULT 0,
  output_tokens    bigint NOT NULL DEFAULT 0,
  cost_usd         double precision,
  turns            integer,
  seconds          double precision,
  hook_errors      text COLLATE "C" NOT NULL DEFAULT '[]',
  cancel_requested integer NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
  CHECK ((status = 'running') = (ended_at IS NULL))
);
CREATE INDEX runs_open ON runs (agent) WHERE ended_at IS NULL;
CREATE INDEX runs_by_agent ON runs (agent, started_at);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_item ON runs (work_item_id) WHERE work_item_id IS NOT NULL;

-- An ended run stays as it ended.
CREATE FUNCTION runs_end_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a run ends once'; END $$;
CREATE TRIGGER runs_end_once BEFORE UPDATE ON runs FOR EACH ROW
  WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION runs_end_once();

-- Why an agent may not run now: failures in a row, or a quota that is used up.
CREATE TABLE agent_limits (
  agent         text COLLATE "C" PRIMARY KEY NOT NULL,
  failures      integer NOT NULL DEFAULT 0,  -- in a row
  breaker_until text COLLATE "C",
  usage_until   text COLLATE "C",
  note          text COLLATE "C",
  updated_at    text COLLATE "C" NOT NULL
);

-- What must still leave the database. A row is taken for a while by pushing its next attempt out,
-- so that whoever dies over it only delays it.
CREATE TABLE outbox (
  id              text COLLATE "C" PRIMARY KEY NOT NULL,
  kind            text COLLATE "C" NOT NULL,
  agent           text COLLATE "C",
  subject         text COLLATE "C" NOT NULL,
  payload         text COLLATE "C" NOT NULL,
  created_at      text COLLATE "C" NOT NULL,
  attempts        integer NOT NULL DEFAULT 0,
  next_attempt_at text COLLATE "C" NOT NULL,
  delivered_at    text COLLATE "C",
  failed_at       text COLLATE "C",
  error           text COLLATE "C",
  CHECK (delivered_at IS NULL OR failed_at IS NULL)
);
CREATE INDEX outbox_due ON outbox (next_attempt_at)
  WHERE delivered_at IS NULL AND failed_at IS NULL;
