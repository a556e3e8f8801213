-- name: insert_young
INSERT INTO young_signals (signal_id, among) VALUES (:id, pg_current_snapshot())

-- name: has_young
SELECT 1 FROM young_signals LIMIT 1

-- name: bound_young
-- The signal can be seen by now, so whatever gets its id after this transaction sees it. (By the end
-- of the snapshot, which is the last id that has ended, one that is under way could be later.)
UPDATE young_signals SET until = pg_current_xact_id()
WHERE signal_id IN (SELECT signal_id FROM young_signals WHERE until IS NULL FOR UPDATE SKIP LOCKED)

-- name: catch_up
-- Firings for what was done by transactions that may not have seen the signal. It is grown when all
-- of them have ended; by the same snapshot, or one that ends in between would be missed.
WITH young AS MATERIALIZED (
  SELECT signal_id, among, until FROM young_signals WHERE until IS NOT NULL FOR UPDATE SKIP LOCKED
), grown AS (
  DELETE FROM young_signals y USING young
  WHERE y.signal_id = young.signal_id AND young.until <= pg_snapshot_xmin(pg_current_snapshot())
)
INSERT INTO work_signal_firings (id, signal_id, dedupe_key, event_seq, work_item_id, status,
                                 next_attempt_at, created_at)
SELECT DISTINCT k.signal_id || ':' || e.seq, k.signal_id, 'event:' || e.seq, e.seq, e.work_item_id,
       'queued', e.occurred_at, e.occurred_at
FROM young
CROSS JOIN LATERAL (
  SELECT e.* FROM pg_snapshot_xip(among) AS open_then (txid) JOIN events e USING (txid)
  UNION ALL
  SELECT e.* FROM events e WHERE e.txid >= pg_snapshot_xmax(among) AND e.txid < until
) AS e
CROSS JOIN LATERAL heard_keys(e.type, e.to_status, e.work_item_id, e.project_id, e.agent) AS heard
-- With its limit the planner looks each key up, however many there are.
CROSS JOIN LATERAL (SELECT signal_id FROM signal_keys
                    WHERE signal_keys.key = heard.key AND signal_id = young.signal_id LIMIT 1) AS k
ON CONFLICT DO NOTHING RETURNING id

-- name: settle_young
-- After a restore, the snapshots are those of another cluster, in which all that is open has ended.
WITH young AS (DELETE FROM young_signals RETURNING signal_id, among)
INSERT INTO work_signal_firings (id, signal_id, dedupe_key, event_seq, work_item_id, status,
                                 next_attempt_at, created_at)
SELECT DISTINCT k.signal_id || ':' || e.seq, k.signal_id, 'event:' || e.seq, e.seq, e.work_item_id,
       'queued', e.occurred_at, e.occurred_at
FROM young JOIN events e ON NOT pg_visible_in_snapshot(e.txid, among)
CROSS JOIN LATERAL heard_keys(e.type, e.to_status, e.work_item_id, e.project_id, e.agent) AS heard
JOIN signal_keys k ON k.signal_id = young.signal_id AND k.key = heard.key
ON CONFLICT DO NOTHING

-- name: insert_signal_keys
INSERT INTO signal_keys (key, signal_id)
SELECT value, :id FROM jsonb_array_elements_text(CAST(:keys AS jsonb))

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

-- name: lease_follow_up
UPDATE work_item_tasks SET status = 'leased', holder = :agent, lease_token = :token,
  lease_expires_at = :until, attempts = attempts + 1
WHERE id = (SELECT id FROM work_item_tasks WHERE status IN ('open', 'leased')
            AND (status = 'open' OR lease_expires_at <= :now)
            AND (agent IS NULL OR agent = :agent) ORDER BY id LIMIT 1
            FOR UPDATE SKIP LOCKED)
RETURNING @follow_up
