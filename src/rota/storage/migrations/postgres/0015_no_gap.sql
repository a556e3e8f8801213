-- A move that is under way while a signal is made does not see the signal, and the signal does not see
-- the move. So each new signal keeps which transactions were open when it was made, and until it is
-- known that all of them have ended, what they have done is looked up (the statement `catch_up`). No
-- transaction waits for another: one that never ends would stop all others.
CREATE TABLE young_signals (
  signal_id text COLLATE "C" PRIMARY KEY NOT NULL REFERENCES work_signals (id),
  among     pg_snapshot NOT NULL,  -- as the signal was made
  until     xid8                   -- whatever began later than this has seen the signal
);

-- The keys that an event is heard by.
CREATE FUNCTION heard_keys(type text, to_status text, item text, project text, agent text)
RETURNS TABLE (key text) LANGUAGE sql IMMUTABLE AS $$
  SELECT heard.key COLLATE "C" FROM (VALUES
    ('item:' || item || ':' || to_status), ('project:' || project || ':' || to_status),
    ('agent:' || agent || ':' || to_status), ('any:' || to_status),
    (type || ':' || agent), (type || ':')) AS heard (key)
  WHERE to_status IS NOT NULL OR type IN ('run.finished', 'source.event')
$$;

CREATE OR REPLACE FUNCTION events_fire_signals() RETURNS trigger LANGUAGE plpgsql
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_seqscan TO off AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM signal_keys) THEN RETURN NULL; END IF;
  INSERT INTO work_signal_firings (id, signal_id, dedupe_key, event_seq, work_item_id, status,
                                   next_attempt_at, created_at)
  SELECT DISTINCT k.signal_id || ':' || e.seq, k.signal_id, 'event:' || e.seq, e.seq,
         e.work_item_id, 'queued', e.occurred_at, e.occurred_at
  FROM new_events e
  CROSS JOIN LATERAL heard_keys(e.type, e.to_status, e.work_item_id, e.project_id, e.agent) AS heard
  JOIN signal_keys k ON k.key = heard.key;
  RETURN NULL;
END $$;
