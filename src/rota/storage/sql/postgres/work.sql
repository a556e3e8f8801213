-- name: insert_items
-- Many rows in one statement, from one JSON array.
INSERT INTO work_items (id, project_id, type, description, body, payload, priority, status,
                        assigned_agent, pinned, created_by, created_at, updated_at, labels,
                        max_attempts, available_at, deferred, source, source_ref)
SELECT id, project_id, type, description, body, payload, priority, 'queued',
       assigned_agent, pinned, created_by, now, now, labels,
       max_attempts, available_at, deferred, source, source_ref
FROM json_to_recordset(CAST(:rows AS json)) AS r (
  id text, project_id text, type text, description text, body text, payload text, priority int,
  assigned_agent text, pinned int, created_by text, now text, labels text, max_attempts int,
  available_at text, deferred int, source text, source_ref text)

-- name: promote_due
UPDATE work_items SET deferred = 0 WHERE id IN (
  SELECT id FROM work_items WHERE deferred = 1 AND available_at <= :now
  FOR UPDATE SKIP LOCKED)
