-- name: insert_items
WITH r AS MATERIALIZED (
  SELECT value, k FROM jsonb_array_elements(CAST(:rows AS jsonb)) WITH ORDINALITY AS j (value, k)
), stored AS (
  INSERT INTO work_items (id, project_id, type, description, body, payload, priority, status,
                          assigned_agent, pinned, created_by, created_at, updated_at, labels,
                          max_attempts, available_at, deferred, source, source_ref)
  SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
         (value ->> 6)::int, 'queued', value ->> 7, (value ->> 8)::int, value ->> 9, :now, :now,
         value ->> 10, (value ->> 11)::int, value ->> 12, (value ->> 13)::int, value ->> 14,
         value ->> 15
  FROM r
)
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, to_status, epoch)
SELECT 'work.submitted', :now, CAST(:actor AS text), value ->> 0, value ->> 1, value ->> 7,
       'queued', 0
FROM r ORDER BY k

-- name: promote_due
UPDATE work_items SET deferred = 0 WHERE id IN (
  SELECT id FROM work_items WHERE deferred = 1 AND available_at <= :now
  FOR UPDATE SKIP LOCKED)

-- name: lapsed_items
-- What another sweeper or a heartbeat is at is skipped; it will be looked at again.
SELECT @item FROM work_items WHERE lease_expires_at <= :now
ORDER BY lease_expires_at LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: quiet_items
SELECT @item FROM work_items
WHERE status = 'in_progress' AND claim_token IS NULL AND updated_at < :before
LIMIT :limit FOR UPDATE SKIP LOCKED
