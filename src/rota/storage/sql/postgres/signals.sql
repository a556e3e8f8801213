-- name: insert_signal_keys
INSERT INTO signal_keys (key, signal_id)
SELECT value, :id FROM jsonb_array_elements_text(CAST(:keys AS jsonb))

-- name: list_signals
-- A parameter whose first comparison is with a literal needs a cast to tell PostgreSQL its type.
SELECT @signal FROM work_signals WHERE id > :after
  AND (CAST(:status AS text) = '' OR status = :status)
  AND (CAST(:item AS text) = '' OR work_item_id = :item)
ORDER BY id LIMIT :want

-- name: newest_signals
SELECT @signal FROM work_signals WHERE id < :after
  AND (CAST(:status AS text) = '' OR status = :status)
  AND (CAST(:item AS text) = '' OR work_item_id = :item)
ORDER BY id DESC LIMIT :want

-- name: take_firings
-- Locks the signal before its firing. A transaction that fires a signal may end all its other
-- firings: none of them may be locked by a transaction that waits for the signal.
UPDATE work_signal_firings SET status = 'processing', attempt = attempt + 1, lease_owner = :owner,
  lease_expires_at = :until, next_attempt_at = :until
WHERE id IN (SELECT f.id FROM work_signal_firings f JOIN work_signals s ON s.id = f.signal_id
             WHERE f.status IN ('queued', 'processing') AND f.next_attempt_at <= :now
             AND (:since = '' OR (f.attempt = 0 AND f.created_at >= :since))
             ORDER BY f.next_attempt_at LIMIT :want
             FOR NO KEY UPDATE OF s SKIP LOCKED FOR UPDATE OF f SKIP LOCKED)
RETURNING @firing

-- name: conclude_firing
-- Ends a firing in one round trip. Every part depends on the update of the signal's row. If another
-- transaction has counted the signal, or the lease is another's, no event is written and no row is
-- returned.
WITH fired AS (
  UPDATE work_signals SET fires = fires + 1, last_fired_at = :now, last_fired_seq = :seq,
    updated_at = :now, status = CASE WHEN :last = 1 THEN 'fired' ELSE status END
  WHERE id = :signal_id AND status = 'active' AND fires = :fires RETURNING id
), dropped AS (
  DELETE FROM signal_keys k USING fired WHERE k.signal_id = fired.id AND :last = 1
), ended AS (
  UPDATE work_signal_firings f SET status = :status, error = :error, result = :result,
    processed_at = :now, lease_owner = NULL, lease_expires_at = NULL
  FROM fired WHERE f.id = :id AND f.status = 'processing' AND f.lease_owner = :owner RETURNING f.id
)
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, data)
SELECT :type, :now, :actor, :work_item_id, :project_id, :data FROM fired CROSS JOIN ended
RETURNING seq

-- name: count_moves
SELECT count(*) FROM events WHERE work_item_id = :id AND seq <= :seq
  AND to_status IN (SELECT jsonb_array_elements_text(CAST(:statuses AS jsonb)))
  AND (:origins = '[]'
       OR from_status IN (SELECT jsonb_array_elements_text(CAST(:origins AS jsonb))))
  AND (:reasons = '[]' OR reason IN (SELECT jsonb_array_elements_text(CAST(:reasons AS jsonb))))

-- fragment: open_firings
(WITH o AS MATERIALIZED (
   SELECT id, signal_id FROM work_signal_firings WHERE status IN ('queued', 'processing')
 ) SELECT coalesce(jsonb_agg(id), '[]')::text FROM o WHERE signal_id = :signal)

-- name: gather_items
SELECT jsonb_array_length(CAST(:items AS jsonb)), (
  SELECT count(*) FROM jsonb_array_elements_text(CAST(:items AS jsonb)) AS i (value)
  WHERE EXISTS (
    SELECT 1 FROM work_items w WHERE w.id = i.value
    AND w.status IN (SELECT jsonb_array_elements_text(CAST(:statuses AS jsonb))))), @open_firings

-- name: gather_project
SELECT count(*), count(*) FILTER (
  WHERE status IN (SELECT jsonb_array_elements_text(CAST(:statuses AS jsonb)))), @open_firings
FROM work_items WHERE project_id = :project

-- name: skip_firings
UPDATE work_signal_firings SET status = 'skipped', error = :error, processed_at = :now,
  lease_owner = NULL, lease_expires_at = NULL
WHERE status IN ('queued', 'processing')
  AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))))

-- name: list_follow_ups
SELECT @follow_up FROM work_item_tasks WHERE id > :after
  AND (CAST(:status AS text) = '' OR status = :status)
  AND (CAST(:agent AS text) = '' OR agent IS NULL OR agent = :agent)
ORDER BY id LIMIT :want

-- name: follow_ups_of
SELECT @follow_up FROM work_item_tasks WHERE work_item_id = :item AND id > :after
  AND (CAST(:status AS text) = '' OR status = :status)
  AND (CAST(:agent AS text) = '' OR agent IS NULL OR agent = :agent)
ORDER BY id LIMIT :want

-- name: lease_follow_up
UPDATE work_item_tasks SET status = 'leased', holder = :agent, lease_token = :token,
  lease_expires_at = :until, attempts = attempts + 1
WHERE id = (SELECT id FROM work_item_tasks WHERE status IN ('open', 'leased')
            AND (status = 'open' OR lease_expires_at <= :now)
            AND (CAST(:named AS text) = '' OR id = :named)
            AND (agent IS NULL OR agent = :agent) ORDER BY id LIMIT 1
            FOR UPDATE SKIP LOCKED)
RETURNING @follow_up

-- name: end_follow_up
UPDATE work_item_tasks SET status = :status, completed_at = :now, outcome = :outcome,
  notes = coalesce(:notes, notes), lease_token = NULL, lease_expires_at = NULL
WHERE id = :id AND ((status = 'leased' AND lease_token = :token)
                    OR (CAST(:token AS text) = ''
                        AND (status = 'open' OR (status = 'leased' AND lease_expires_at <= :now))))
RETURNING @follow_up
