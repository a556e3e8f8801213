-- fragment: deliverable
(kind <> 'notification' OR :everything = 1
 OR subject IN (SELECT jsonb_array_elements_text(CAST(:channels AS jsonb))))
AND id NOT IN (SELECT jsonb_array_elements_text(CAST(:left_alone AS jsonb)))

-- name: take_post
-- Reports first: items wait for them, and a receiver of notifications may be slow.
UPDATE outbox SET attempts = attempts + 1, next_attempt_at = :until WHERE id IN (
  SELECT id FROM outbox WHERE delivered_at IS NULL AND failed_at IS NULL
    AND next_attempt_at <= :now AND (next_attempt_at <= :left_over OR (@deliverable))
  ORDER BY kind <> 'report', next_attempt_at LIMIT :want FOR UPDATE SKIP LOCKED)
RETURNING @letter

-- name: lock_limits
-- An advisory lock and not the row: an agent that has never failed has no row, and two first
-- failures would both start counting at zero. A transaction that waits here has locked at most the
-- run that it ends, so there is no deadlock.
SELECT pg_advisory_xact_lock(1383035493, hashtext(:agent))

-- name: pending_subjects
SELECT DISTINCT o.subject
FROM jsonb_array_elements_text(CAST(:subjects AS jsonb)) AS s (value)
JOIN outbox o ON o.subject = s.value
WHERE o.delivered_at IS NULL AND o.failed_at IS NULL

-- name: lost_at_work
-- With an array the planner looks the items up; with a join it may read the whole table.
SELECT @run FROM runs WHERE status = 'lost'
  AND work_item_id = ANY (ARRAY(SELECT id FROM work_items WHERE status = 'in_progress'))
  AND EXISTS (SELECT 1 FROM work_items w WHERE w.id = runs.work_item_id
              AND w.status = 'in_progress' AND w.epoch = runs.epoch)
ORDER BY id

-- name: open_runs
SELECT @run FROM runs WHERE ended_at IS NULL ORDER BY id DESC LIMIT :want

-- name: last_runs
SELECT @run FROM runs WHERE id = ANY (ARRAY(
  SELECT (SELECT r.id FROM runs r WHERE r.agent = a.value ORDER BY r.started_at DESC, r.id DESC
          LIMIT 1)
  FROM jsonb_array_elements_text(CAST(:agents AS jsonb)) AS a (value)))

-- name: last_scheduled_runs
SELECT @run FROM runs WHERE id = ANY (ARRAY(
  SELECT (SELECT r.id FROM runs r WHERE r.agent = s.value ->> 0 AND r.schedule = s.value ->> 1
            AND r.started_at >= s.value ->> 2
          ORDER BY r.started_at DESC, r.id DESC LIMIT 1)
  FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS s (value)))

-- name: slots_in_use
SELECT w.assigned_agent, w.slot, w.id, w.description, coalesce(
  (SELECT e.occurred_at FROM events e
   WHERE e.work_item_id = w.id AND e.type IN ('work.started', 'work.resumed')
   ORDER BY e.seq DESC LIMIT 1), w.updated_at)
FROM work_items w
WHERE w.assigned_agent = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:agents AS jsonb))))
  AND w.status = 'in_progress'
ORDER BY w.assigned_agent, w.slot
