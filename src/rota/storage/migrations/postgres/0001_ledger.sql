-- The ledger: projects, work items, dispatch log, claims, events, and who may call.
-- Times are fixed-width UTC text, ids are UUIDv7 text, JSON is text.

CREATE TABLE projects (
  id           text COLLATE "C" PRIMARY KEY NOT NULL,
  name         text COLLATE "C" NOT NULL,
  external_ref text COLLATE "C",
  created_at   text COLLATE "C" NOT NULL,
  updated_at   text COLLATE "C" NOT NULL
);

CREATE TABLE agents (
  name           text COLLATE "C" PRIMARY KEY NOT NULL,
  max_concurrent integer NOT NULL DEFAULT 1 CHECK (max_concurrent BETWEEN 1 AND 1000),
  paused         integer NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  created_at     text COLLATE "C" NOT NULL,
  updated_at     text COLLATE "C" NOT NULL
);

CREATE TABLE work_items (
  id             text COLLATE "C" PRIMARY KEY NOT NULL,
  project_id     text COLLATE "C" REFERENCES projects (id),
  type           text COLLATE "C" NOT NULL,
  description    text COLLATE "C" NOT NULL,
  body           text COLLATE "C",
  payload        text COLLATE "C",
  priority       integer NOT NULL DEFAULT 3 CHECK (priority BETWEEN 1 AND 5),
  status         text COLLATE "C" NOT NULL
                 CHECK (status IN ('queued', 'dispatched', 'in_progress', 'blocked',
                                   'in_review', 'completed', 'failed', 'cancelled')),
  reason         text COLLATE "C",
  assigned_agent text COLLATE "C",
  pinned         integer NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),  -- named by a person
  slot           integer,
  created_by     text COLLATE "C",
  created_at     text COLLATE "C" NOT NULL,
  updated_at     text COLLATE "C" NOT NULL,
  completed_at   text COLLATE "C",
  outcome        text COLLATE "C",
  notes          text COLLATE "C",
  labels         text COLLATE "C" NOT NULL DEFAULT '[]',
  artifact_url   text COLLATE "C",
  attempts       integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  max_attempts   integer NOT NULL DEFAULT 3 CHECK (max_attempts >= 1),
  available_at   text COLLATE "C",
  deferred       integer NOT NULL DEFAULT 0 CHECK (deferred IN (0, 1)),
  hold_reason    text COLLATE "C",
  open_blockers  integer NOT NULL DEFAULT 0 CHECK (open_blockers >= 0),
  dependents     integer NOT NULL DEFAULT 0 CHECK (dependents >= 0),
  epoch          integer NOT NULL DEFAULT 0,
  claim_token    text COLLATE "C",
  lease_expires_at text COLLATE "C",
  heartbeat_at   text COLLATE "C",
  progress       text COLLATE "C",
  version        integer NOT NULL DEFAULT 1,
  source         text COLLATE "C",
  source_ref     text COLLATE "C",
  came_from      text COLLATE "C",

  CONSTRAINT terminal_has_an_end CHECK (
    (status IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)),
  CONSTRAINT outcome_fits_status CHECK (
    CASE status WHEN 'completed' THEN outcome IS NOT DISTINCT FROM 'success'
                WHEN 'failed'    THEN outcome IS NOT DISTINCT FROM 'failed'
                WHEN 'cancelled' THEN outcome IS NOT DISTINCT FROM 'cancelled'
                ELSE outcome IS NULL END),
  CONSTRAINT worked_by_somebody CHECK (
    status NOT IN ('dispatched', 'in_progress') OR assigned_agent IS NOT NULL),
  CONSTRAINT slot_while_in_progress CHECK ((status = 'in_progress') = (slot IS NOT NULL)),
  -- The live claim's token stands in the row itself, so that one guarded statement can compare it.
  CONSTRAINT claimed_while_in_progress CHECK (claim_token IS NULL OR status = 'in_progress'),
  CONSTRAINT claimed_for_a_time CHECK ((claim_token IS NULL) = (lease_expires_at IS NULL))
);

-- One in_progress item per agent and slot: the promise, kept by the table itself.
CREATE UNIQUE INDEX one_in_progress_per_slot
  ON work_items (assigned_agent, slot) WHERE status = 'in_progress';
CREATE UNIQUE INDEX one_item_per_source_ref
  ON work_items (source, source_ref) WHERE source IS NOT NULL;

-- Ids are in the order of creation, so they serve as age in every index: each move of an item
-- touches several of these trees, and the shorter their keys, the better.

-- What a claim reads: only items that anybody may take now, in the order they are taken. By
-- priority + 0, because no other index has that order: by the plain one the planner may take the
-- index by status, and every claim wades through what is held, blocked or not due.
CREATE INDEX work_items_ready
  ON work_items ((priority + 0), id)
  WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0;
-- The same by type, so that an agent that takes one rare type does not wade through the others.
CREATE INDEX work_items_ready_by_type
  ON work_items (type, (priority + 0), id)
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
  label        text COLLATE "C" NOT NULL,
  work_item_id text COLLATE "C" NOT NULL REFERENCES work_items (id),
  PRIMARY KEY (label, work_item_id)
);
CREATE INDEX work_item_labels_by_item ON work_item_labels (work_item_id);

CREATE TABLE work_item_links (
  work_item_id text COLLATE "C" NOT NULL REFERENCES work_items (id),
  blocker_id   text COLLATE "C" NOT NULL REFERENCES work_items (id) CHECK (blocker_id <> work_item_id),
  PRIMARY KEY (work_item_id, blocker_id)
);
CREATE INDEX work_item_links_by_blocker ON work_item_links (blocker_id);

CREATE TABLE dispatch_log (
  id           text COLLATE "C" PRIMARY KEY NOT NULL,
  work_item_id text COLLATE "C" NOT NULL REFERENCES work_items (id),
  dispatched_at text COLLATE "C" NOT NULL,
  agent        text COLLATE "C" NOT NULL,
  completed_at text COLLATE "C",
  outcome      text COLLATE "C" CHECK (outcome IN ('success', 'failed', 'cancelled', 'released')),
  CHECK ((completed_at IS NULL) = (outcome IS NULL))
) WITH (fillfactor = 60);  -- room to close a row where it lies
CREATE INDEX dispatch_log_by_item ON dispatch_log (work_item_id, dispatched_at);

CREATE FUNCTION dispatch_log_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL
     AND (NEW.id, NEW.work_item_id, NEW.dispatched_at, NEW.agent)
       = (OLD.id, OLD.work_item_id, OLD.dispatched_at, OLD.agent) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'dispatch_log is append-only: a row may be closed once';
END $$;
CREATE TRIGGER dispatch_log_closes_once BEFORE UPDATE OR DELETE ON dispatch_log
  FOR EACH ROW EXECUTE FUNCTION dispatch_log_guard();

-- Every claim ever made, so that a former holder is known when it comes back. Which one is live,
-- and how long, stands in the item's row.
CREATE TABLE claims (
  work_item_id  text COLLATE "C" NOT NULL REFERENCES work_items (id),
  epoch         integer NOT NULL,
  token         text COLLATE "C" NOT NULL,
  agent         text COLLATE "C" NOT NULL,
  slot          integer NOT NULL,
  claimed_at    text COLLATE "C" NOT NULL,
  lease_seconds double precision NOT NULL,
  PRIMARY KEY (work_item_id, epoch)
);

-- No foreign keys here: history may outlive what it tells of.
CREATE TABLE events (
  seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  type         text COLLATE "C" NOT NULL,
  occurred_at  text COLLATE "C" NOT NULL,
  actor        text COLLATE "C",
  work_item_id text COLLATE "C",
  project_id   text COLLATE "C",
  agent        text COLLATE "C",
  reason       text COLLATE "C",
  from_status  text COLLATE "C",
  to_status    text COLLATE "C",
  epoch        integer,
  data         text COLLATE "C" NOT NULL DEFAULT '{}',
  -- Sequence numbers are handed out before commit; readers follow (txid, seq), see events_after.
  txid         xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX events_in_commit_order ON events (txid, seq);
CREATE INDEX events_by_item ON events (work_item_id, seq) WHERE work_item_id IS NOT NULL;

-- The transaction number alone may be set back to 0, which a restore into a new cluster needs
-- (its counter begins anew); the facts themselves never change.
CREATE FUNCTION events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.txid = '0'::xid8
     AND to_jsonb(NEW) - 'txid' = to_jsonb(OLD) - 'txid' THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'events are append-only';
END $$;
CREATE TRIGGER events_do_not_change BEFORE UPDATE OR DELETE ON events
  FOR EACH ROW EXECUTE FUNCTION events_guard();

CREATE TABLE idempotency_keys (
  key          text COLLATE "C" PRIMARY KEY NOT NULL,
  request_hash text COLLATE "C" NOT NULL,
  item_ids     text COLLATE "C" NOT NULL,
  created_at   text COLLATE "C" NOT NULL
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE api_tokens (
  id           text COLLATE "C" PRIMARY KEY NOT NULL,
  name         text COLLATE "C" NOT NULL,
  secret_hash  text COLLATE "C" NOT NULL UNIQUE,
  scopes       text COLLATE "C" NOT NULL,
  created_at   text COLLATE "C" NOT NULL,
  expires_at   text COLLATE "C",
  revoked_at   text COLLATE "C",
  last_used_at text COLLATE "C"
);
