-- name: lock_schedules
SELECT 1 FROM schedules
WHERE agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb))))
ORDER BY agent, name FOR UPDATE

-- name: standings
-- With an array the planner looks the agents up; with a join it may read the whole table.
SELECT agent, name, type, definition, configured, enabled, next_at, slot, last_completed_at,
       source
FROM schedules WHERE agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb))))

-- name: some_nodes
SELECT id, place, pid, started_at, seen_at, ended_at FROM nodes
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: end_nodes
UPDATE nodes SET ended_at = :now WHERE ended_at IS NULL AND id <> :id
  AND (place = :place OR (id, seen_at) IN (
    SELECT value ->> 0, value ->> 1
    FROM jsonb_array_elements(CAST(:silent AS jsonb)) AS r (value))) RETURNING id

-- name: put_schedules
INSERT INTO schedules (agent, name, type, definition, configured, enabled, next_at, slot, source)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, (value ->> 4)::int, (value ->> 5)::int,
       value ->> 6, value ->> 7, value ->> 8
FROM jsonb_array_elements(CAST(:rows AS jsonb)) WITH ORDINALITY AS r (value, k) ORDER BY k
ON CONFLICT (agent, name) DO UPDATE SET
  type = excluded.type, definition = excluded.definition, configured = excluded.configured,
  enabled = excluded.enabled, next_at = excluded.next_at, slot = excluded.slot,
  source = excluded.source

-- name: rest_schedules
UPDATE schedules SET next_at = :rests WHERE next_at <> :rests
  AND agent NOT IN (SELECT jsonb_array_elements_text(CAST(:agents AS jsonb)))

-- name: drop_schedules
DELETE FROM schedules s USING jsonb_array_elements(CAST(:rows AS jsonb)) AS r (value)
WHERE s.agent = r.value ->> 0 AND s.name = r.value ->> 1

-- name: due_schedules
-- Skips schedules that another node has locked: they are no longer due once that node commits.
SELECT agent, name, definition, slot, next_at FROM schedules
WHERE next_at <= :now AND (next_at, agent, name) > (:beyond_at, :beyond_agent, :beyond_name)
ORDER BY next_at, agent, name LIMIT :want FOR UPDATE SKIP LOCKED

-- name: ahead_of
SELECT agent, name, definition, slot, next_at FROM schedules
WHERE agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb))))
  AND next_at > :now FOR UPDATE SKIP LOCKED

-- name: lock_agents
-- The same order everywhere, so that two nodes cannot deadlock.
SELECT pg_advisory_xact_lock(1383035492, hashtext(name)) FROM (
  SELECT value AS name FROM jsonb_array_elements_text(CAST(:agents AS jsonb)) AS r (value)
  ORDER BY hashtext(value) OFFSET 0) AS in_order

-- name: open_triggers
-- First all open triggers, which are few: otherwise the planner reads the agent's whole history.
WITH o AS MATERIALIZED (
  SELECT agent, schedule FROM triggers WHERE ended_at IS NULL AND node <> ''
)
SELECT agent, schedule, count(*) FROM o
WHERE agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb))))
GROUP BY agent, schedule

-- name: count_waiting
WITH o AS MATERIALIZED (
  SELECT agent, schedule FROM triggers WHERE ended_at IS NULL AND node = ''
)
SELECT count(*) FROM o WHERE agent = :agent AND schedule = :schedule

-- name: insert_triggers
INSERT INTO triggers (id, agent, schedule, slot, kind, node, triggered_at, message)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r (value)
ON CONFLICT DO NOTHING RETURNING id

-- name: advance_schedules
WITH r AS MATERIALIZED (
  SELECT value ->> 0 AS agent, value ->> 1 AS name, value ->> 2 AS expected, value ->> 3 AS slot,
         value ->> 4 AS next_at, (value ->> 5)::int AS ran, value ->> 6 AS skip
  FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS j (value)
)
UPDATE schedules s SET
  slot = r.slot, next_at = r.next_at,
  last_run_at = CASE WHEN r.ran = 1 THEN :now ELSE s.last_run_at END,
  trigger_count = s.trigger_count + r.ran,
  last_skip_reason = coalesce(r.skip, s.last_skip_reason),
  last_skip_at = CASE WHEN r.skip IS NULL THEN s.last_skip_at ELSE :now END,
  last_skip_detail = CASE WHEN r.skip IS NULL THEN s.last_skip_detail END,
  skip_count = s.skip_count + CASE WHEN r.skip IS NULL THEN 0 ELSE 1 END
FROM r WHERE s.agent = r.agent AND s.name = r.name AND s.slot = r.expected AND s.enabled = 1
  AND s.agent = ANY (ARRAY(SELECT agent FROM r))

-- name: waiting_triggers
-- Locks the schedule too, because it is written as well. A node that held only the trigger could
-- wait for the schedule's lock of another node, which in turn waits for the agent's lock.
WITH o AS MATERIALIZED (
  SELECT id, agent, schedule FROM triggers WHERE ended_at IS NULL AND node = ''
)
SELECT t.id, t.agent, t.schedule, t.slot, t.kind, t.node, t.triggered_at, t.message
FROM triggers t JOIN schedules s ON s.agent = t.agent AND s.name = t.schedule
WHERE t.id = ANY (ARRAY(
    SELECT min(o.id) FROM o
    WHERE o.agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb))))
    GROUP BY o.agent, o.schedule))
  AND t.id > :after AND t.ended_at IS NULL AND t.node = ''
ORDER BY t.id LIMIT :want FOR UPDATE OF t, s SKIP LOCKED

-- name: end_triggers
UPDATE triggers t SET ended_at = :now, outcome = r.value ->> 1, error = r.value ->> 2
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r (value)
WHERE t.id = r.value ->> 0 AND t.ended_at IS NULL
  AND t.id = ANY (ARRAY(SELECT value ->> 0 FROM jsonb_array_elements(CAST(:rows AS jsonb))))
RETURNING t.id

-- name: note_ends
WITH r AS MATERIALIZED (
  SELECT value ->> 0 AS agent, value ->> 1 AS name, value ->> 2 AS error, value ->> 3 AS skip,
         value ->> 4 AS slot, value ->> 5 AS next_at, (value ->> 6)::int AS keep,
         value ->> 7 AS definition
  FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS j (value)
)
UPDATE schedules s SET
  last_completed_at = :now,
  last_error = CASE WHEN r.keep = 1 THEN s.last_error ELSE r.error END,
  last_skip_reason = coalesce(r.skip, s.last_skip_reason),
  last_skip_at = CASE WHEN r.skip IS NULL THEN s.last_skip_at ELSE :now END,
  last_skip_detail = CASE WHEN r.skip IS NULL THEN s.last_skip_detail ELSE r.error END,
  skip_count = s.skip_count + CASE WHEN r.skip IS NULL THEN 0 ELSE 1 END,
  slot = CASE WHEN s.next_at IS NULL OR s.definition <> r.definition THEN s.slot
              ELSE coalesce(r.slot, s.slot) END,
  next_at = CASE WHEN s.next_at IS NULL OR s.next_at = :rests OR s.definition <> r.definition
                 THEN s.next_at ELSE coalesce(r.next_at, s.next_at) END
FROM r WHERE s.agent = r.agent AND s.name = r.name AND s.agent = ANY (ARRAY(SELECT agent FROM r))

-- name: free_waiting
UPDATE schedules SET next_at = :now WHERE (agent, name) IN (
  SELECT f.agent, f.name
  FROM jsonb_array_elements_text(CAST(:agents AS jsonb)) AS r (value)
  CROSS JOIN LATERAL (
    SELECT s.agent, s.name FROM schedules s
    WHERE s.agent = r.value AND s.next_at > :now AND s.slot <= :now
      AND s.next_at <> :rests AND s.last_skip_reason IN ('at_capacity', 'already_running')
    ORDER BY s.slot, s.name LIMIT 1 FOR UPDATE SKIP LOCKED) AS f)

-- name: wakings
SELECT t.agent, t.schedule,
       coalesce(t.outcome, CASE t.node WHEN '' THEN 'waiting' ELSE 'running' END) AS became,
       count(*), min(t.triggered_at) AS first_at, max(t.triggered_at)
FROM triggers t WHERE t.id >= :begin AND t.triggered_at >= :since
  AND (t.agent, t.schedule) IN (SELECT value ->> 0, value ->> 1
                                FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r (value))
GROUP BY t.agent, t.schedule, became, substr(t.triggered_at, 1, 15)
ORDER BY first_at, became
