-- Nodes, schedules and triggers. `:rows` is a JSON array with one entry for each row.

-- name: put_node
INSERT INTO nodes (id, place, pid, started_at, seen_at)
VALUES (:id, :place, :pid, :started_at, :seen_at)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, ended_at = NULL

-- name: see_node
UPDATE nodes SET seen_at = :now WHERE id = :id AND ended_at IS NULL RETURNING id

-- name: end_nodes
-- A place has one living process, so its other nodes are dead. `seen_at` guards the silent nodes: a
-- node that was seen in the meantime is not ended.
UPDATE nodes SET ended_at = :now WHERE ended_at IS NULL AND id <> :id
  AND (place = :place OR (id, seen_at) IN
       (SELECT value ->> 0, value ->> 1 FROM json_each(:silent))) RETURNING id

-- name: end_node
UPDATE nodes SET ended_at = :now WHERE id = :id AND ended_at IS NULL RETURNING id

-- name: living_nodes
SELECT id, place, pid, started_at, seen_at, ended_at FROM nodes WHERE ended_at IS NULL ORDER BY id

-- name: nodes_since
SELECT id, place, pid, started_at, seen_at, ended_at FROM nodes WHERE seen_at >= :since ORDER BY id

-- name: some_nodes
SELECT id, place, pid, started_at, seen_at, ended_at FROM nodes
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: put_roster
INSERT INTO rosters (node, schedules) VALUES (:node, :schedules)
ON CONFLICT (node) DO UPDATE SET schedules = excluded.schedules

-- name: other_rosters
SELECT r.schedules FROM nodes n LEFT JOIN rosters r ON r.node = n.id
WHERE n.ended_at IS NULL AND n.id <> :node

-- name: living_rosters
SELECT r.schedules FROM nodes n LEFT JOIN rosters r ON r.node = n.id
WHERE n.ended_at IS NULL AND n.seen_at >= :since

-- name: prune_rosters
DELETE FROM rosters WHERE node NOT IN (SELECT id FROM nodes WHERE ended_at IS NULL)

-- name: last_sight
-- A full scan is cheap: there are few nodes, and ended nodes are pruned.
SELECT max(seen_at) FROM nodes

-- name: prune_nodes
DELETE FROM nodes WHERE ended_at < :before

-- name: lose_triggers
-- Of every node that is not living, including a node that ended before its trigger was written.
UPDATE triggers SET ended_at = :now, outcome = 'lost', error = :error
WHERE ended_at IS NULL AND node <> ''
  AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = triggers.node AND n.ended_at IS NULL)
RETURNING @trigger

-- fragment: trigger
id, agent, schedule, slot, kind, node, triggered_at, message

-- fragment: state
-- In the order of `ScheduleState`.
s.agent, s.name, s.type, s.definition, s.enabled, s.next_at, s.slot, s.last_run_at,
s.last_completed_at, s.last_error, s.last_skip_reason, s.last_skip_at, s.skip_count,
s.trigger_count,
(SELECT count(*) FROM triggers t JOIN nodes n ON n.id = t.node
 WHERE t.agent = s.agent AND t.schedule = s.name AND t.ended_at IS NULL
   AND n.ended_at IS NULL AND n.seen_at >= :alive_since),
s.last_skip_detail, s.source

-- name: lock_schedules
-- SQLite has one writer at a time, so there is nothing to lock.
SELECT value FROM json_each(:agents) LIMIT 0

-- name: standings
SELECT s.agent, s.name, s.type, s.definition, s.configured, s.enabled, s.next_at, s.slot,
       s.last_completed_at, s.source
FROM json_each(:agents) AS r CROSS JOIN schedules s ON s.agent = r.value

-- name: put_schedules
INSERT INTO schedules (agent, name, type, definition, configured, enabled, next_at, slot, source)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8
FROM json_each(:rows) WHERE true
ON CONFLICT (agent, name) DO UPDATE SET
  type = excluded.type, definition = excluded.definition, configured = excluded.configured,
  enabled = excluded.enabled, next_at = excluded.next_at, slot = excluded.slot,
  source = excluded.source

-- name: rest_schedules
UPDATE schedules SET next_at = :rests
WHERE next_at <> :rests AND agent NOT IN (SELECT value FROM json_each(:agents))

-- name: drop_schedules
DELETE FROM schedules WHERE (agent, name) IN
  (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- name: end_orphans
-- No node would ever take up a waiting trigger whose schedule is gone.
UPDATE triggers SET ended_at = :now, outcome = 'dropped', error = 'its schedule was removed'
WHERE ended_at IS NULL AND node = '' AND NOT EXISTS (
  SELECT 1 FROM schedules s WHERE s.agent = triggers.agent AND s.name = triggers.schedule)

-- name: schedule_state
SELECT @state FROM schedules s WHERE s.agent = :agent AND s.name = :name

-- name: schedule_states
SELECT @state FROM schedules s WHERE (s.agent, s.name) > (:after_agent, :after_name)
ORDER BY s.agent, s.name LIMIT :want

-- name: agent_schedule_states
SELECT @state FROM schedules s WHERE s.agent = :agent AND s.name > :after_name
ORDER BY s.name LIMIT :want

-- name: enable_schedule
UPDATE schedules SET enabled = 1, slot = :slot, next_at = :next_at
WHERE agent = :agent AND name = :name RETURNING name

-- name: disable_schedule
UPDATE schedules SET enabled = 0, slot = NULL, next_at = NULL
WHERE agent = :agent AND name = :name RETURNING name

-- name: restore_schedule
-- If no configuration has been read yet, this adds a row that waits for it and does not wake.
INSERT INTO schedules (agent, name, type, definition, configured, enabled, next_at, slot,
                       last_run_at, last_completed_at, last_error)
VALUES (:agent, :name, :type, :definition, 1, :enabled, :next_at, :slot, :last_run_at,
        :last_completed_at, :last_error)
ON CONFLICT (agent, name) DO UPDATE SET
  enabled = excluded.enabled, next_at = excluded.next_at, slot = excluded.slot,
  last_run_at = excluded.last_run_at, last_completed_at = excluded.last_completed_at,
  last_error = excluded.last_error
WHERE schedules.trigger_count = 0
RETURNING name

-- name: due_schedules
-- Reads only the beginning of an index, however many schedules there are.
SELECT agent, name, definition, slot, next_at FROM schedules
WHERE next_at <= :now AND (next_at, agent, name) > (:beyond_at, :beyond_agent, :beyond_name)
ORDER BY next_at, agent, name LIMIT :want

-- name: is_due
-- Without the ORDER BY, PostgreSQL would scan the table for a row.
SELECT 1 FROM schedules
WHERE next_at <= :now AND (next_at, agent, name) > (:beyond_at, :beyond_agent, :beyond_name)
ORDER BY next_at LIMIT 1

-- name: next_wake
SELECT next_at FROM schedules WHERE next_at > :now ORDER BY next_at LIMIT 1

-- name: ahead_of
SELECT s.agent, s.name, s.definition, s.slot, s.next_at
FROM json_each(:agents) AS r CROSS JOIN schedules s ON s.agent = r.value
WHERE s.next_at > :now

-- name: lock_agents
-- SQLite has one writer at a time, so there is nothing to lock.
SELECT value FROM json_each(:agents) LIMIT 0

-- name: open_triggers
SELECT t.agent, t.schedule, count(*)
FROM json_each(:agents) AS r CROSS JOIN triggers t ON t.agent = r.value
WHERE t.ended_at IS NULL AND t.node <> '' GROUP BY t.agent, t.schedule

-- name: taken_by
-- Reads the open triggers, which are few. To have them in order, SQLite would read all by id.
SELECT @trigger FROM triggers WHERE ended_at IS NULL AND node = :node

-- name: insert_triggers
INSERT INTO triggers (id, agent, schedule, slot, kind, node, triggered_at, message)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7
FROM json_each(:rows) WHERE true
ON CONFLICT DO NOTHING RETURNING id

-- name: advance_schedules
-- The expected slot (entry 2) is the guard: a second node that advances it changes nothing.
UPDATE schedules SET
  slot = r.value ->> 3, next_at = r.value ->> 4,
  last_run_at = CASE WHEN r.value ->> 5 THEN :now ELSE last_run_at END,
  trigger_count = trigger_count + (r.value ->> 5),
  last_skip_reason = coalesce(r.value ->> 6, last_skip_reason),
  last_skip_at = CASE WHEN r.value ->> 6 IS NULL THEN last_skip_at ELSE :now END,
  last_skip_detail = CASE WHEN r.value ->> 6 IS NULL THEN last_skip_detail END,
  skip_count = skip_count + CASE WHEN r.value ->> 6 IS NULL THEN 0 ELSE 1 END
FROM json_each(:rows) AS r
WHERE schedules.agent = r.value ->> 0 AND schedules.name = r.value ->> 1
  AND schedules.slot = r.value ->> 2 AND schedules.enabled = 1

-- name: waiting_triggers
-- The plus makes SQLite sort the few open triggers. Without it SQLite reads all triggers by id.
SELECT @trigger FROM triggers WHERE id IN (
  SELECT min(t.id) FROM json_each(:agents) AS r CROSS JOIN triggers t ON t.agent = r.value
  WHERE t.ended_at IS NULL AND t.node = '' GROUP BY t.agent, t.schedule)
AND +id > :after ORDER BY +id LIMIT :want

-- name: is_waiting
SELECT 1 FROM triggers WHERE ended_at IS NULL AND node = '' LIMIT 1

-- name: count_waiting
SELECT count(*) FROM triggers
WHERE agent = :agent AND schedule = :schedule AND ended_at IS NULL AND node = ''

-- name: take_up
UPDATE triggers SET node = :node, triggered_at = :now
WHERE id = :id AND node = '' AND ended_at IS NULL RETURNING id

-- name: note_taken_up
-- An interval schedule counts from the end of its last run and, until that run ends, from here. Not
-- if the definition differs: the node that took the trigger up may have an older file.
UPDATE schedules SET
  last_run_at = :now, trigger_count = trigger_count + 1,
  slot = CASE WHEN next_at IS NULL OR definition <> :definition THEN slot
              ELSE coalesce(:slot, slot) END,
  next_at = CASE WHEN next_at IS NULL OR definition <> :definition THEN next_at
                 ELSE coalesce(:slot, next_at) END
WHERE agent = :agent AND name = :schedule

-- name: end_triggers
UPDATE triggers SET ended_at = :now, outcome = r.value ->> 1, error = r.value ->> 2
FROM json_each(:rows) AS r
WHERE triggers.id = r.value ->> 0 AND triggers.ended_at IS NULL RETURNING triggers.id

-- name: note_ends
-- The schedule may have a new definition by the time the run ends, or may rest. Times that were
-- computed for the old definition do not apply to the new one, and a resting schedule is not woken.
UPDATE schedules SET
  last_completed_at = :now,
  last_error = CASE WHEN r.value ->> 6 THEN last_error ELSE r.value ->> 2 END,
  last_skip_reason = coalesce(r.value ->> 3, last_skip_reason),
  last_skip_at = CASE WHEN r.value ->> 3 IS NULL THEN last_skip_at ELSE :now END,
  last_skip_detail = CASE WHEN r.value ->> 3 IS NULL THEN last_skip_detail ELSE r.value ->> 2 END,
  skip_count = skip_count + CASE WHEN r.value ->> 3 IS NULL THEN 0 ELSE 1 END,
  slot = CASE WHEN next_at IS NULL OR definition <> r.value ->> 7 THEN slot
              ELSE coalesce(r.value ->> 4, slot) END,
  next_at = CASE WHEN next_at IS NULL OR next_at = :rests OR definition <> r.value ->> 7
                 THEN next_at ELSE coalesce(r.value ->> 5, next_at) END
FROM json_each(:rows) AS r
WHERE schedules.agent = r.value ->> 0 AND schedules.name = r.value ->> 1

-- name: free_waiting
-- One schedule for each agent: only one place became free, so the others would be skipped again.
UPDATE schedules SET next_at = :now WHERE (agent, name) IN (
  SELECT f.agent, f.name FROM json_each(:agents) AS r CROSS JOIN schedules f
  ON f.agent = r.value AND f.name = (
    SELECT s.name FROM schedules s WHERE s.agent = r.value AND s.next_at > :now AND s.slot <= :now
      AND s.next_at <> :rests AND s.last_skip_reason IN ('at_capacity', 'already_running')
    ORDER BY s.slot, s.name LIMIT 1))

-- name: get_trigger
SELECT @trigger, ended_at, outcome, error FROM triggers WHERE id = :id

-- name: wakings
-- Ids are in the order of time and the table is in the order of ids, so this reads one range. The
-- plus keeps SQLite from reading all triggers of each schedule instead.
SELECT t.agent, t.schedule,
       coalesce(t.outcome, CASE t.node WHEN '' THEN 'waiting' ELSE 'running' END) AS became,
       count(*), min(t.triggered_at) AS first_at, max(t.triggered_at)
FROM triggers t WHERE t.id >= :begin AND t.triggered_at >= :since
  AND (+t.agent, t.schedule) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))
GROUP BY t.agent, t.schedule, became, substr(t.triggered_at, 1, 15)
ORDER BY first_at, became

-- name: expire_waiting
UPDATE triggers SET ended_at = :now, outcome = 'expired', error = 'no node took it up'
WHERE ended_at IS NULL AND node = '' AND triggered_at < :before

-- name: prune_triggers
DELETE FROM triggers WHERE triggered_at < :before AND ended_at IS NOT NULL
