-- Signals: when this happens, do that. What matches is written down by the table of events itself,
-- in the transaction of the event, whichever statement wrote it: nothing is missed, nothing scanned.

CREATE TABLE work_signals (
  id             text COLLATE "C" PRIMARY KEY NOT NULL,
  work_item_id   text COLLATE "C" REFERENCES work_items (id),
  name           text COLLATE "C",
  trigger_kind   text COLLATE "C" NOT NULL,
  trigger_spec   text COLLATE "C" NOT NULL,
  action         text COLLATE "C" NOT NULL,
  status         text COLLATE "C" NOT NULL CHECK (status IN ('active', 'fired', 'cancelled', 'expired')),
  max_fires      integer CHECK (max_fires >= 1),
  fires          integer NOT NULL DEFAULT 0,
  max_depth      integer NOT NULL DEFAULT 3 CHECK (max_depth >= 0),
  expires_at     text COLLATE "C",
  created_by     text COLLATE "C",
  configured     integer NOT NULL DEFAULT 0 CHECK (configured IN (0, 1)),
  created_at     text COLLATE "C" NOT NULL,
  updated_at     text COLLATE "C" NOT NULL,
  last_fired_at  text COLLATE "C",
  last_fired_seq bigint NOT NULL DEFAULT 0,
  CONSTRAINT fires_no_more_than_it_may CHECK (max_fires IS NULL OR fires <= max_fires)
);
CREATE UNIQUE INDEX one_active_signal_of_a_name
  ON work_signals (name) WHERE name IS NOT NULL AND status = 'active';
CREATE INDEX work_signals_by_item ON work_signals (work_item_id) WHERE work_item_id IS NOT NULL;
CREATE INDEX work_signals_by_status ON work_signals (status, id);
CREATE INDEX work_signals_expiring
  ON work_signals (expires_at) WHERE status = 'active' AND expires_at IS NOT NULL;

-- What an active signal listens to, most selective first: 'item:ID:STATUS', 'project:ID:STATUS',
-- 'agent:NAME:STATUS', 'any:STATUS', 'run.finished:AGENT', 'run.finished:', 'source.event:'.
CREATE TABLE signal_keys (
  key       text COLLATE "C" NOT NULL,
  signal_id text COLLATE "C" NOT NULL REFERENCES work_signals (id),
  PRIMARY KEY (key, signal_id)
);
CREATE INDEX signal_keys_by_signal ON signal_keys (signal_id);

CREATE TABLE work_signal_firings (
  id               text COLLATE "C" PRIMARY KEY NOT NULL,
  signal_id        text COLLATE "C" NOT NULL REFERENCES work_signals (id),
  dedupe_key       text COLLATE "C" NOT NULL,
  event_seq        bigint,
  work_item_id     text COLLATE "C",
  status           text COLLATE "C" NOT NULL
                   CHECK (status IN ('queued', 'processing', 'enqueued', 'skipped', 'failed')),
  attempt          integer NOT NULL DEFAULT 0,
  next_attempt_at  text COLLATE "C" NOT NULL,
  created_at       text COLLATE "C" NOT NULL,
  lease_owner      text COLLATE "C",
  lease_expires_at text COLLATE "C",
  processed_at     text COLLATE "C",
  error            text COLLATE "C",
  result           text COLLATE "C" NOT NULL DEFAULT '{}',
  CHECK ((status = 'processing') = (lease_owner IS NOT NULL)),
  CHECK ((lease_owner IS NULL) = (lease_expires_at IS NULL))
);
CREATE UNIQUE INDEX one_firing_per_cause ON work_signal_firings (signal_id, dedupe_key);
CREATE INDEX work_signal_firings_due
  ON work_signal_firings (next_attempt_at) WHERE status IN ('queued', 'processing');

CREATE TABLE work_item_tasks (
  id               text COLLATE "C" PRIMARY KEY NOT NULL,
  work_item_id     text COLLATE "C" NOT NULL REFERENCES work_items (id),
  signal_id        text COLLATE "C",
  firing_id        text COLLATE "C" UNIQUE,
  title            text COLLATE "C" NOT NULL,
  body             text COLLATE "C",
  status           text COLLATE "C" NOT NULL CHECK (status IN ('open', 'leased', 'completed', 'cancelled')),
  agent            text COLLATE "C",  -- that it is meant for
  created_at       text COLLATE "C" NOT NULL,
  holder           text COLLATE "C",  -- that has it, or had it last
  lease_token      text COLLATE "C",
  lease_expires_at text COLLATE "C",
  attempts         integer NOT NULL DEFAULT 0,
  completed_at     text COLLATE "C",
  outcome          text COLLATE "C",
  notes            text COLLATE "C",
  CHECK ((status = 'leased') = (lease_token IS NOT NULL)),
  CHECK ((lease_token IS NULL) = (lease_expires_at IS NULL)),
  CHECK ((status IN ('completed', 'cancelled')) = (completed_at IS NOT NULL))
);
CREATE INDEX work_item_tasks_by_item ON work_item_tasks (work_item_id);
CREATE INDEX work_item_tasks_open ON work_item_tasks (id) WHERE status IN ('open', 'leased');

-- Which item a signal made of which: loops are found along this line.
CREATE TABLE signal_lineage (
  work_item_id text COLLATE "C" PRIMARY KEY NOT NULL REFERENCES work_items (id),
  parent_id    text COLLATE "C",
  signal_id    text COLLATE "C" NOT NULL
);

CREATE FUNCTION events_fire_signals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM signal_keys) THEN RETURN NULL; END IF;
  INSERT INTO work_signal_firings (id, signal_id, dedupe_key, event_seq, work_item_id, status,
                                   next_attempt_at, created_at)
  SELECT DISTINCT k.signal_id || ':' || e.seq, k.signal_id, 'event:' || e.seq, e.seq,
         e.work_item_id, 'queued', e.occurred_at, e.occurred_at
  FROM new_events e
  CROSS JOIN LATERAL (VALUES ('item:' || e.work_item_id || ':' || e.to_status),
                             ('project:' || e.project_id || ':' || e.to_status),
                             ('agent:' || e.agent || ':' || e.to_status),
                             ('any:' || e.to_status),
                             (e.type || ':' || e.agent),
                             (e.type || ':')) AS heard (key)
  JOIN signal_keys k ON k.key = heard.key COLLATE "C"
  WHERE e.to_status IS NOT NULL OR e.type IN ('run.finished', 'source.event');
  RETURN NULL;
END $$;
CREATE TRIGGER events_fire_signals AFTER INSERT ON events
  REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT EXECUTE FUNCTION events_fire_signals();
