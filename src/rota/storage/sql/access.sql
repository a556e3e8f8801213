-- name: insert_project
INSERT INTO projects (id, name, external_ref, created_at, updated_at)
VALUES (:id, :name, :external_ref, :created_at, :updated_at)

-- name: get_project
SELECT id, name, external_ref, created_at, updated_at FROM projects WHERE id = :id

-- name: list_projects
SELECT id, name, external_ref, created_at, updated_at FROM projects
WHERE id > :after ORDER BY id LIMIT :limit

-- name: update_project
-- A field that is not named keeps the value in the row. On PostgreSQL another transaction may have
-- changed that value a moment ago.
UPDATE projects SET name = coalesce(:name, name),
  external_ref = CASE WHEN :keep_ref = 1 THEN external_ref ELSE :external_ref END, updated_at = :now
WHERE id = :id RETURNING id, name, external_ref, created_at, updated_at

-- name: get_agent
SELECT name, max_concurrent, paused, created_at, updated_at, max_in_review FROM agents
WHERE name = :name

-- name: put_agent
INSERT INTO agents (name, max_concurrent, paused, created_at, updated_at, max_in_review)
VALUES (:name, :max_concurrent, :paused, :now, :now, :max_in_review)
ON CONFLICT (name) DO UPDATE SET max_concurrent = excluded.max_concurrent,
                                 paused = excluded.paused, updated_at = excluded.updated_at,
                                 max_in_review = excluded.max_in_review

-- name: agent_loads
SELECT n.name, coalesce(a.max_concurrent, 1), coalesce(a.paused, 0), a.created_at, a.updated_at,
  a.max_in_review,
  (SELECT count(*) FROM work_items w WHERE w.assigned_agent = n.name AND w.status = 'in_progress'),
  (SELECT count(*) FROM work_items w WHERE w.assigned_agent = n.name AND w.status = 'dispatched'
   AND w.completed_at IS NULL AND w.slot IS NULL),
  (SELECT count(*) FROM work_items w WHERE w.assigned_agent = n.name AND w.status = 'in_review'
   AND w.completed_at IS NULL AND w.slot IS NULL)
FROM (SELECT name FROM agents
      UNION SELECT assigned_agent FROM work_items
      WHERE assigned_agent IS NOT NULL AND status = 'in_progress'
      UNION SELECT assigned_agent FROM work_items
      WHERE assigned_agent IS NOT NULL AND status = 'dispatched' AND slot IS NULL
      AND status <> 'queued') AS n
LEFT JOIN agents a ON a.name = n.name ORDER BY n.name

-- name: find_key
SELECT request_hash, item_ids FROM idempotency_keys WHERE key = :key

-- name: keep_key
INSERT INTO idempotency_keys (key, request_hash, item_ids, created_at)
VALUES (:key, :request_hash, :item_ids, :now) ON CONFLICT DO NOTHING RETURNING key

-- name: forget_keys
DELETE FROM idempotency_keys WHERE created_at < :before

-- fragment: token
id, name, scopes, created_at, expires_at, revoked_at, last_used_at

-- name: insert_token
INSERT INTO api_tokens (id, name, secret_hash, scopes, created_at, expires_at)
VALUES (:id, :name, :secret_hash, :scopes, :created_at, :expires_at)

-- name: find_token
SELECT @token FROM api_tokens WHERE secret_hash = :secret_hash

-- name: list_tokens
SELECT @token FROM api_tokens ORDER BY id

-- name: revoke_token
UPDATE api_tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id

-- name: touch_token
UPDATE api_tokens SET last_used_at = :now WHERE id = :id

-- name: has_tokens
SELECT 1 FROM api_tokens WHERE revoked_at IS NULL LIMIT 1
