-- Claims. A claim or a batch completion covers many items, and each statement handles all of them.
-- `:rows` holds one row of values for each item.

-- fragment: claim
-- Whether a claim is live, and until when, is kept in the item's row.
c.work_item_id, c.epoch, c.token, c.agent, c.slot, c.claimed_at, c.lease_seconds,
w.lease_expires_at, w.heartbeat_at, w.progress,
CASE WHEN w.claim_token = c.token THEN 1 ELSE 0 END

-- name: live_claim
SELECT @claim FROM work_items w JOIN claims c ON c.work_item_id = w.id AND c.epoch = w.epoch
WHERE w.id = :id AND w.claim_token IS NOT NULL

-- name: find_claim
SELECT @claim FROM claims c JOIN work_items w ON w.id = c.work_item_id
WHERE c.work_item_id = :id AND c.token = :token

-- name: claim_at
SELECT @claim FROM claims c JOIN work_items w ON w.id = c.work_item_id
WHERE c.work_item_id = :id AND c.epoch = :epoch

-- name: insert_claim
INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)
VALUES (:id, :epoch, :token, :agent, :slot, :now, :lease_seconds)

-- name: seats
-- For each of some agents: the number of slots, whether it is paused, the busy slots, whether an
-- item is queued or dispatched for it, and the limit and number of its items in review.
SELECT r.value, coalesce(a.max_concurrent, 1), coalesce(a.paused, 0),
  (SELECT group_concat(w.slot) FROM work_items w
   WHERE w.assigned_agent = r.value AND w.status = 'in_progress'),
  EXISTS (SELECT 1 FROM work_items w WHERE w.assigned_agent = r.value
          AND w.status IN ('dispatched', 'queued') AND w.completed_at IS NULL AND w.slot IS NULL),
  a.max_in_review,
  CASE WHEN a.max_in_review IS NULL THEN 0 ELSE
    (SELECT count(*) FROM work_items w WHERE w.assigned_agent = r.value
     AND w.status = 'in_review' AND w.completed_at IS NULL AND w.slot IS NULL) END
FROM json_each(:agents) AS r LEFT JOIN agents a ON a.name = r.value

-- name: take_items
WITH r (id, epoch, token, agent, slot, expires_at) AS (VALUES :rows)
UPDATE work_items SET
  came_from = status, status = 'in_progress', reason = 'claimed', updated_at = :now,
  assigned_agent = r.agent, slot = r.slot, epoch = r.epoch, claim_token = r.token,
  lease_expires_at = r.expires_at, attempts = attempts + 1, version = version + 1
FROM r WHERE work_items.id = r.id

-- name: take_claims
WITH r (id, epoch, token, agent, slot, lease_seconds) AS (VALUES :rows)
INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)
SELECT id, epoch, token, agent, slot, :now, lease_seconds FROM r WHERE id IS NOT NULL

-- name: take_log
-- An item that was already dispatched has an open row and brings no dispatch id.
WITH r (dispatch_id, id, agent) AS (VALUES :rows)
INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)
SELECT dispatch_id, id, :now, agent FROM r WHERE dispatch_id IS NOT NULL

-- name: take_events
WITH r (id, epoch, agent, dispatch_id, project_id) AS (VALUES :rows)
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch)
SELECT e.column1, :now, r.agent, r.id, r.project_id, r.agent, 'claimed', e.column2, e.column3, r.epoch
FROM r
CROSS JOIN (VALUES ('work.dispatched', 'queued', 'dispatched'),
                   ('work.started', 'dispatched', 'in_progress')) AS e
WHERE r.id IS NOT NULL AND (e.column2 = 'dispatched' OR r.dispatch_id IS NOT NULL)

-- name: finish_items
-- Only the items of a batch completion whose claim is live. The plus keeps SQLite from scanning
-- all items in progress: it looks the ids up instead.
WITH r (id, token, notes) AS (VALUES :rows)
UPDATE work_items SET
  came_from = status, status = 'completed', reason = 'complete', updated_at = :now,
  completed_at = :now, outcome = 'success', notes = coalesce(r.notes, work_items.notes),
  slot = NULL, claim_token = NULL, lease_expires_at = NULL, heartbeat_at = NULL, progress = NULL,
  version = version + 1
FROM r
WHERE work_items.id = r.id AND +status = 'in_progress' AND claim_token = r.token
RETURNING @item

-- name: finish_log
WITH r (id) AS (VALUES :rows)
UPDATE dispatch_log SET completed_at = :now, outcome = 'success'
FROM r WHERE dispatch_log.work_item_id = r.id AND dispatch_log.completed_at IS NULL

-- name: finish_events
WITH r (id, actor, data, project_id, agent, epoch) AS (VALUES :rows)
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch, data)
SELECT 'work.completed', :now, actor, id, project_id, agent, 'complete', 'in_progress',
       'completed', epoch, data
FROM r WHERE id IS NOT NULL

-- name: log_dispatch
INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)
VALUES (:dispatch_id, :id, :now, :agent)

-- name: close_dispatch
UPDATE dispatch_log SET completed_at = :now, outcome = :outcome
WHERE work_item_id = :id AND completed_at IS NULL

-- name: dispatches_of
SELECT id, work_item_id, dispatched_at, agent, completed_at, outcome
FROM dispatch_log WHERE work_item_id = :id ORDER BY dispatched_at, id
