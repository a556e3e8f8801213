-- name: insert_items
-- A row may be shorter: a missing value is NULL.
WITH r AS MATERIALIZED (
  SELECT value, value ->> 0 AS id, value ->> 9 AS project_id, value ->> 10 AS assigned_agent,
         value ->> 11 AS available_at, k
  FROM jsonb_array_elements(CAST(:rows AS jsonb)) WITH ORDINALITY AS j (value, k)
), stored AS (
  INSERT INTO work_items (id, project_id, type, description, body, payload, priority, status,
                          assigned_agent, pinned, created_by, created_at, updated_at, labels,
                          max_attempts, available_at, deferred, source, source_ref)
  SELECT id, project_id, value ->> 1, value ->> 2, value ->> 8, value ->> 7, (value ->> 3)::int,
         'queued', assigned_agent, CASE WHEN assigned_agent IS NULL THEN 0 ELSE 1 END,
         value ->> 6, :now, :now, value ->> 4, (value ->> 5)::int, available_at,
         CASE WHEN available_at > :now THEN 1 ELSE 0 END, value ->> 12, value ->> 13
  FROM r
)
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, to_status, epoch)
SELECT 'work.submitted', :now, CAST(:actor AS text), id, project_id, assigned_agent, 'queued', 0
FROM r ORDER BY k

-- name: promote_due
UPDATE work_items SET deferred = 0 WHERE id IN (
  SELECT id FROM work_items WHERE deferred = 1 AND available_at <= :now
  FOR UPDATE SKIP LOCKED)

-- name: lapsed_items
-- Skips rows that another sweeper or a heartbeat has locked; the next sweep looks at them again.
SELECT @item FROM work_items WHERE lease_expires_at <= :now
ORDER BY lease_expires_at LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: quiet_items
SELECT @item FROM work_items
WHERE status = 'in_progress' AND claim_token IS NULL AND updated_at < :before
LIMIT :limit FOR UPDATE SKIP LOCKED
