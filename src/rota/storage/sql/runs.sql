-- Runs, the limits of agents, and the outbox.

-- fragment: run
id, agent, schedule, trigger_kind, trigger_id, node, work_item_id, epoch, item_title, attempt,
started_at, ended_at, status, summary, artifacts, error, exit_code, session_id, input_tokens,
output_tokens, cost_usd, turns, seconds, hook_errors, cancel_requested

-- name: insert_run
INSERT INTO runs (id, agent, schedule, trigger_kind, trigger_id, node, work_item_id, epoch,
                  item_title, attempt, started_at, status)
VALUES (:id, :agent, :schedule, :trigger_kind, :trigger_id, :node, :work_item_id, :epoch,
        :item_title, :attempt, :started_at, 'running')

-- name: end_run
UPDATE runs SET ended_at = :now, status = :status, summary = :summary, artifacts = :artifacts,
  error = :error, exit_code = :exit_code, session_id = :session_id, input_tokens = :input_tokens,
  output_tokens = :output_tokens, cost_usd = :cost_usd, turns = :turns, seconds = :seconds,
  hook_errors = :hook_errors
WHERE id = :id AND ended_at IS NULL RETURNING @run

-- name: get_run
SELECT @run FROM runs WHERE id = :id

-- name: request_cancel
UPDATE runs SET cancel_requested = 1 WHERE id = :id AND ended_at IS NULL RETURNING id

-- name: runs_to_cancel
SELECT id FROM runs WHERE ended_at IS NULL AND node = :node AND cancel_requested = 1

-- name: dead_runs
-- An earlier node at our place is certainly dead. An ended node elsewhere may only be cut off from
-- the database. Its runs, like those of workers (which are no nodes), count as dead only once their
-- claims have ended. This statement does not judge by `seen_at` whether a node lives, because that
-- time comes from the node's own clock.
SELECT @run FROM runs r WHERE r.ended_at IS NULL AND r.node <> :node AND (
  EXISTS (SELECT 1 FROM nodes n WHERE n.id = r.node AND n.place = :place)
  OR (((r.trigger_kind = 'worker' AND r.started_at < :before)
       OR EXISTS (SELECT 1 FROM nodes n WHERE n.id = r.node AND n.ended_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM work_items w WHERE w.id = r.work_item_id
                      AND w.status = 'in_progress' AND w.epoch = r.epoch)))
ORDER BY id

-- name: lost_at_work
-- Lost runs whose item is still in progress at the epoch of the run.
SELECT @run FROM runs WHERE status = 'lost'
  AND work_item_id IN (SELECT id FROM work_items WHERE status = 'in_progress')
  AND EXISTS (SELECT 1 FROM work_items w WHERE w.id = runs.work_item_id
              AND w.status = 'in_progress' AND w.epoch = runs.epoch)
ORDER BY id

-- name: last_session_of_item
SELECT session_id FROM runs
WHERE work_item_id = :work_item_id AND agent = :agent AND session_id IS NOT NULL
ORDER BY id DESC LIMIT 1

-- name: last_session_of_schedule
SELECT session_id FROM runs
WHERE agent = :agent AND schedule = :schedule AND work_item_id IS NULL AND session_id IS NOT NULL
ORDER BY started_at DESC LIMIT 1

-- name: spent_by_agent
SELECT count(*), coalesce(sum(seconds), 0.0), coalesce(sum(input_tokens + output_tokens), 0),
       coalesce(sum(cost_usd), 0.0)
FROM runs WHERE agent = :agent AND started_at >= :since

-- name: spent_by_all
SELECT count(*), coalesce(sum(seconds), 0.0), coalesce(sum(input_tokens + output_tokens), 0),
       coalesce(sum(cost_usd), 0.0)
FROM runs WHERE started_at >= :since

-- name: tallies
-- Grouped by an expression: by the column, SQLite would read all runs in the order of an index.
SELECT agent || '' AS who, status, count(*), coalesce(sum(seconds), 0.0),
       coalesce(sum(input_tokens + output_tokens), 0), sum(cost_usd)
FROM runs WHERE started_at >= :since GROUP BY who, status ORDER BY who, status

-- name: open_runs
-- The plus makes SQLite sort the few open runs. Without it SQLite reads all runs by id.
SELECT @run FROM runs WHERE ended_at IS NULL ORDER BY +id DESC LIMIT :want

-- name: last_runs
SELECT @run FROM runs WHERE id IN (
  SELECT (SELECT r.id FROM runs r WHERE r.agent = a.value ORDER BY r.started_at DESC, r.id DESC
          LIMIT 1)
  FROM json_each(:agents) AS a)

-- name: last_scheduled_runs
-- Reads the agent's runs backwards to that time, because no index includes the schedule.
SELECT @run FROM runs WHERE id IN (
  SELECT (SELECT r.id FROM runs r WHERE r.agent = s.value ->> 0 AND r.schedule = s.value ->> 1
            AND r.started_at >= s.value ->> 2
          ORDER BY r.started_at DESC, r.id DESC LIMIT 1)
  FROM json_each(:rows) AS s)

-- name: slots_in_use
SELECT w.assigned_agent, w.slot, w.id, w.description, coalesce(
  (SELECT e.occurred_at FROM events e
   WHERE e.work_item_id = w.id AND e.type IN ('work.started', 'work.resumed')
   ORDER BY e.seq DESC LIMIT 1), w.updated_at)
FROM json_each(:agents) AS a CROSS JOIN work_items w
  ON w.assigned_agent = a.value AND w.status = 'in_progress'
ORDER BY w.assigned_agent, w.slot

-- name: get_limits
SELECT agent, failures, breaker_until, usage_until, note FROM agent_limits WHERE agent = :agent

-- name: lock_limits
-- SQLite has one writer at a time, so there is nothing to lock.
SELECT :agent LIMIT 0

-- name: list_limits
SELECT agent, failures, breaker_until, usage_until, note FROM agent_limits ORDER BY agent

-- name: put_limits
INSERT INTO agent_limits (agent, failures, breaker_until, usage_until, note, updated_at)
VALUES (:agent, :failures, :breaker_until, :usage_until, :note, :now)
ON CONFLICT (agent) DO UPDATE SET failures = :failures, breaker_until = :breaker_until,
  usage_until = :usage_until, note = :note, updated_at = :now

-- fragment: letter
id, kind, agent, subject, payload, created_at, attempts, next_attempt_at, delivered_at, failed_at,
error

-- name: post
INSERT INTO outbox (id, kind, agent, subject, payload, created_at, next_attempt_at)
VALUES (:id, :kind, :agent, :subject, :payload, :created_at, :next_attempt_at)
ON CONFLICT (id) DO NOTHING

-- fragment: deliverable
(kind <> 'notification' OR :everything = 1 OR subject IN (SELECT value FROM json_each(:channels)))
AND id NOT IN (SELECT value FROM json_each(:left_alone))

-- name: take_post
-- Reports first: items wait for them, and a receiver of notifications may be slow.
UPDATE outbox SET attempts = attempts + 1, next_attempt_at = :until WHERE id IN (
  SELECT id FROM outbox WHERE delivered_at IS NULL AND failed_at IS NULL
    AND next_attempt_at <= :now AND (next_attempt_at <= :left_over OR (@deliverable))
  ORDER BY kind <> 'report', next_attempt_at LIMIT :want)
RETURNING @letter

-- name: take_letter
UPDATE outbox SET attempts = attempts + 1, next_attempt_at = :until
WHERE id = :id AND delivered_at IS NULL AND failed_at IS NULL AND next_attempt_at <= :now
RETURNING @letter

-- name: next_post
SELECT min(next_attempt_at) FROM outbox WHERE delivered_at IS NULL AND failed_at IS NULL
  AND @deliverable

-- name: delivered
UPDATE outbox SET delivered_at = :now, error = NULL WHERE id = :id AND failed_at IS NULL

-- name: postpone
UPDATE outbox SET next_attempt_at = :until, error = :error
WHERE id = :id AND delivered_at IS NULL AND failed_at IS NULL

-- name: leave_letter
UPDATE outbox SET attempts = attempts - 1, next_attempt_at = :now, error = :error
WHERE id = :id AND delivered_at IS NULL AND failed_at IS NULL

-- name: bury
UPDATE outbox SET failed_at = :now, error = :error WHERE id = :id AND delivered_at IS NULL

-- name: revive
UPDATE outbox SET failed_at = NULL, attempts = 0, next_attempt_at = :now
WHERE id = :id AND failed_at IS NOT NULL RETURNING id

-- name: waiting_post
SELECT @letter FROM outbox WHERE delivered_at IS NULL AND failed_at IS NULL
  AND (:kind = '' OR kind = :kind) AND (next_attempt_at, id) > (:next_attempt_at, :after)
ORDER BY next_attempt_at, id LIMIT :want

-- name: buried_post
SELECT @letter FROM outbox WHERE failed_at IS NOT NULL AND (:kind = '' OR kind = :kind)
  AND id > :after ORDER BY id LIMIT :want

-- name: pending_subjects
SELECT DISTINCT o.subject FROM json_each(:subjects) AS s JOIN outbox o ON o.subject = s.value
WHERE o.delivered_at IS NULL AND o.failed_at IS NULL

-- name: forget_post
DELETE FROM outbox WHERE delivered_at IS NOT NULL AND delivered_at < :before
