-- name: take_items
-- A whole claim in one statement. Rows another claim is taking are skipped, never waited for;
-- two claims of one agent that meet in a slot are told apart by the unique index and run again.
WITH free AS (
  SELECT s.slot, row_number() OVER (ORDER BY s.slot) AS k
  FROM generate_series(0, :slots - 1) AS s (slot)
  WHERE NOT EXISTS (SELECT 1 FROM work_items b WHERE b.assigned_agent = :agent
                    AND b.status = 'in_progress' AND b.slot = s.slot)
  ORDER BY s.slot LIMIT :want
), found AS MATERIALIZED (
  /*candidates*/
), picked AS (
  SELECT id, row_number() OVER (ORDER BY status, priority, id) AS k FROM found
), keys AS (
  SELECT token, dispatch_id, k
  FROM unnest(CAST(:tokens AS text[]), CAST(:dispatch_ids AS text[])) WITH ORDINALITY
    AS u (token, dispatch_id, k)
), taken AS (
  UPDATE work_items w SET
    came_from = w.status, status = 'in_progress', reason = 'claimed', updated_at = :now,
    assigned_agent = :agent, slot = free.slot, epoch = w.epoch + 1, claim_token = keys.token,
    attempts = w.attempts + 1, version = w.version + 1
  FROM picked JOIN free USING (k) JOIN keys USING (k)
  WHERE w.id = picked.id
  RETURNING w.*, keys.dispatch_id, picked.k
), leased AS (
  INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds,
                      expires_at)
  SELECT id, epoch, claim_token, :agent, slot, :now, :lease_seconds, :expires_at FROM taken
), logged AS (
  INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)
  SELECT dispatch_id, id, :now, :agent FROM taken WHERE came_from = 'queued'
), told AS (
  INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                      from_status, to_status, epoch)
  SELECT e.type, :now, :agent, id, project_id, :agent, 'claimed', e.source, e.target, epoch
  FROM taken CROSS JOIN (VALUES ('work.dispatched', 'queued', 'dispatched'),
                                ('work.started', 'dispatched', 'in_progress'))
    AS e (type, source, target)
  WHERE e.source = 'dispatched' OR came_from = 'queued'
  ORDER BY k, e.source DESC
)
SELECT @item FROM taken ORDER BY k

-- name: finish_items
-- Completes many claimed items in one statement, each guarded by its token.
WITH asked AS (
  SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:tokens AS text[]), CAST(:notes AS text[]))
    AS u (id, token, note)
), done AS (
  UPDATE work_items w SET
    came_from = w.status, status = 'completed', reason = 'complete', updated_at = :now,
    completed_at = :now, outcome = 'success', notes = coalesce(asked.note, w.notes), slot = NULL,
    claim_token = NULL, version = w.version + 1
  FROM asked
  WHERE w.id = asked.id AND w.status = 'in_progress' AND w.claim_token = asked.token
  RETURNING w.*
), ended AS (
  UPDATE claims c SET ended_at = :now, end_reason = 'complete'
  FROM done WHERE c.work_item_id = done.id AND c.epoch = done.epoch
), closed AS (
  UPDATE dispatch_log l SET completed_at = :now, outcome = 'success'
  FROM done WHERE l.work_item_id = done.id AND l.completed_at IS NULL
), told AS (
  INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                      from_status, to_status, epoch, data)
  SELECT 'work.completed', :now, CAST(:actor AS text), id, project_id, assigned_agent, 'complete',
         came_from, 'completed', epoch, '{"outcome":"success"}'
  FROM done ORDER BY id
)
SELECT @item FROM done

-- name: lapsed_claims
-- Locks item and claim in the order that every other writer takes them; what another sweeper
-- or a heartbeat is at is skipped.
SELECT c.work_item_id, c.epoch, c.token, c.agent, c.slot, c.claimed_at, c.lease_seconds,
       c.expires_at, c.heartbeat_at, c.progress, c.ended_at, c.end_reason
FROM claims c JOIN work_items w ON w.id = c.work_item_id
WHERE c.ended_at IS NULL AND c.expires_at <= :now
ORDER BY c.expires_at LIMIT :limit FOR UPDATE OF w, c SKIP LOCKED

-- name: quiet_items
SELECT @item FROM work_items
WHERE status = 'in_progress' AND claim_token IS NULL AND updated_at < :before
LIMIT :limit FOR UPDATE SKIP LOCKED
