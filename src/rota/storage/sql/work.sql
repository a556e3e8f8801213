-- fragment: item
-- The columns of an item in the order of the dataclass.
id, project_id, type, description, body, payload, priority, status, reason, assigned_agent, pinned,
slot, created_by, created_at, updated_at, completed_at, outcome, notes, labels, artifact_url, attempts,
max_attempts, available_at, deferred, hold_reason, open_blockers, dependents, epoch, claim_token,
lease_expires_at, heartbeat_at, progress, version, source, source_ref, came_from

-- fragment: ready
-- What any agent may take. This condition and the next repeat the WHERE clauses of two partial
-- indexes word for word, so that the planner uses them.
status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL AND open_blockers = 0
AND deferred = 0 AND source IS NULL

-- fragment: waiting
-- Queued items that cannot be taken now, or not by every agent.
status = 'queued' AND (assigned_agent IS NOT NULL OR hold_reason IS NOT NULL OR open_blockers > 0
OR deferred = 1 OR source IS NOT NULL)

-- name: insert_items
-- The payload is stored as text, so that it comes back byte for byte.
WITH r (id, type, description, priority, labels, max_attempts, created_by, payload, body,
        project_id, assigned_agent, available_at, source, source_ref)
  AS (VALUES :rows)
INSERT INTO work_items (id, project_id, type, description, body, payload, priority, status,
                        assigned_agent, pinned, created_by, created_at, updated_at, labels,
                        max_attempts, available_at, deferred, source, source_ref)
SELECT id, project_id, type, description, body, payload, priority, 'queued', assigned_agent,
       CASE WHEN assigned_agent IS NULL THEN 0 ELSE 1 END, created_by, :now, :now, labels,
       max_attempts, available_at, CASE WHEN available_at > :now THEN 1 ELSE 0 END, source, source_ref
FROM r WHERE id IS NOT NULL

-- name: insert_events
WITH r (id, project_id, assigned_agent) AS (VALUES :rows)
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, to_status, epoch)
SELECT 'work.submitted', :now, :actor, id, project_id, assigned_agent, 'queued', 0
FROM r WHERE id IS NOT NULL

-- name: get_item
SELECT @item FROM work_items WHERE id = :id

-- name: move_item
-- One transition. Every guard is in the WHERE clause and concerns this row alone, so that
-- PostgreSQL checks it again on the newest version of the row after waiting for a lock.
UPDATE work_items SET
  came_from = status,
  status = :target,
  reason = :reason,
  updated_at = :now,
  completed_at = :completed_at,
  outcome = :outcome,
  notes = coalesce(:notes, notes),
  artifact_url = coalesce(:artifact_url, artifact_url),
  assigned_agent = CASE WHEN :drop_agent = 1 AND pinned = 0 THEN NULL
                        ELSE coalesce(:agent, assigned_agent) END,
  pinned = CASE WHEN coalesce(:agent, assigned_agent) <> assigned_agent THEN 0 ELSE pinned END,
  slot = :slot,
  epoch = epoch + :new_epoch,
  claim_token = NULL,
  lease_expires_at = NULL,
  heartbeat_at = NULL,
  progress = NULL,
  attempts = CASE WHEN :reset_attempts = 1 THEN 0 ELSE attempts + :new_epoch END,
  available_at = coalesce(:available_at, available_at),
  deferred = CASE WHEN coalesce(:available_at, '') > :now THEN 1 ELSE deferred END,
  version = version + 1
WHERE id = :id
  AND status IN (:source_1, :source_2, :source_3)
  AND version = coalesce(:version, version)
  AND (:force = 1 OR coalesce(claim_token, '') = :token)
  AND (:ours_only = 0 OR source IS NULL)
RETURNING @item

-- name: put_lease
-- For an item that was started in this transaction.
UPDATE work_items SET claim_token = :token, lease_expires_at = :expires_at
WHERE id = :id AND status = 'in_progress'
RETURNING @item

-- name: extend_lease
UPDATE work_items SET lease_expires_at = :expires_at, heartbeat_at = :now,
                      progress = coalesce(:progress, progress)
WHERE id = :id AND claim_token = :token
RETURNING id

-- name: lapsed_items
SELECT @item FROM work_items WHERE lease_expires_at <= :now ORDER BY lease_expires_at LIMIT :limit

-- name: next_expiry
SELECT min(lease_expires_at) FROM work_items WHERE lease_expires_at IS NOT NULL

-- name: count_by_status
-- In parts: each part reads one partial index. Most items have ended; of these, SQLite reads nothing
-- but the index, because it holds every column that is named here.
SELECT status, count(*) FROM work_items WHERE completed_at IS NOT NULL GROUP BY status
UNION ALL
SELECT status, count(*) FROM work_items
WHERE status IN ('dispatched', 'blocked', 'in_review') AND slot IS NULL AND status <> 'queued'
GROUP BY status
UNION ALL
SELECT 'in_progress', count(*) FROM work_items WHERE status = 'in_progress'
UNION ALL
SELECT 'queued', (SELECT count(*) FROM work_items WHERE @ready)
               + (SELECT count(*) FROM work_items WHERE @waiting)

-- name: queued_before
SELECT count(*) FROM (
  SELECT 1 FROM work_items
  WHERE @ready AND (priority, id) < (:priority, :id)
  LIMIT 1000) AS ahead

-- name: promote_due
-- Lets deferred items be claimed once their time has come.
UPDATE work_items SET deferred = 0 WHERE deferred = 1 AND available_at <= :now

-- name: next_due
SELECT min(available_at) FROM work_items WHERE deferred = 1

-- name: insert_labels
INSERT INTO work_item_labels (label, work_item_id) VALUES (:label, :id) ON CONFLICT DO NOTHING

-- name: delete_labels
DELETE FROM work_item_labels WHERE work_item_id = :id

-- name: set_labels
UPDATE work_items SET labels = :labels WHERE id = :id

-- name: busy_slots
SELECT slot FROM work_items WHERE assigned_agent = :agent AND status = 'in_progress'

-- name: on_hands
-- One statement, because an item could move from one count to the other between two.
SELECT
  (SELECT count(*) FROM work_items
   WHERE assigned_agent = :agent AND status = 'in_review' AND completed_at IS NULL AND slot IS NULL),
  (SELECT count(*) FROM work_items WHERE assigned_agent = :agent AND status = 'in_progress')

-- name: quiet_items
-- In progress without a lease and unchanged since `before`. The sweeper moves them to `blocked`.
SELECT @item FROM work_items
WHERE status = 'in_progress' AND claim_token IS NULL AND updated_at < :before
LIMIT :limit
