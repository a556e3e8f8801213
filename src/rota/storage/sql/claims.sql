-- Claims. A claim and a batch completion work on many items at once: `:rows` is a JSON array, one
-- entry an item, and each statement handles all of them. On SQLite that spares a call per row.

-- fragment: claim
-- How a claim stands is told by the item's row: whether it is live, and until when.
c.work_item_id, c.epoch, c.token, c.agent, c.slot, c.claimed_at, c.lease_seconds,
w.lease_expires_at, w.heartbeat_at, w.progress,
CASE WHEN w.claim_token = c.token THEN 1 ELSE 0 END

-- name: live_claim
SELECT @claim FROM work_items w JOIN claims c ON c.work_item_id = w.id AND c.epoch = w.epoch
WHERE w.id = :id AND w.claim_token IS NOT NULL

-- name: find_claim
SELECT @claim FROM claims c JOIN work_items w ON w.id = c.work_item_id
WHERE c.work_item_id = :id AND c.token = :token

-- name: insert_claim
INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)
VALUES (:id, :epoch, :token, :agent, :slot, :now, :lease_seconds)

-- name: seats
-- What each of some agents may do: how many slots it has, which are busy, whether it is paused,
-- whether anything waits in its name, how many of its items may be in review, and how many are.
SELECT r.value, coalesce(a.max_concurrent, 1), coalesce(a.paused, 0),
  (SELECT group_concat(w.slot) FROM work_items w
   WHERE w.assigned_agent = r.value AND w.status = 'in_progress'),
  EXISTS (SELECT 1 FROM work_items w WHERE w.assigned_agent = r.value
          AND w.status IN ('dispatched', 'queued') AND w.completed_at IS NULL),
  a.max_in_review,
  CASE WHEN a.max_in_review IS NULL THEN 0 ELSE
    (SELECT count(*) FROM work_items w WHERE w.assigned_agent = r.value
     AND w.status = 'in_review' AND w.completed_at IS NULL) END
FROM json_each(:agents) AS r LEFT JOIN agents a ON a.name = r.value

-- name: take_items
UPDATE work_items SET
  came_from = status, status = 'in_progress', reason = 'claimed', updated_at = :now,
  assigned_agent = r.value ->> 3, slot = r.value ->> 4, epoch = r.value ->> 1,
  claim_token = r.value ->> 2, lease_expires_at = r.value ->> 6, attempts = attempts + 1,
  version = version + 1
FROM json_each(:rows) AS r WHERE work_items.id = r.value ->> 0

-- name: take_claims
INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, :now, value ->> 7
FROM json_each(:rows)

-- name: take_log
-- An item that was dispatched before has its open row already.
INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)
SELECT value ->> 5, value ->> 0, :now, value ->> 3 FROM json_each(:rows)
WHERE value ->> 5 IS NOT NULL

-- name: take_events
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch)
SELECT e.column1, :now, r.value ->> 3, r.value ->> 0, r.value ->> 8, r.value ->> 3, 'claimed',
       e.column2, e.column3, r.value ->> 1
FROM json_each(:rows) AS r
CROSS JOIN (VALUES ('work.dispatched', 'queued', 'dispatched'),
                   ('work.started', 'dispatched', 'in_progress')) AS e
WHERE e.column2 = 'dispatched' OR r.value ->> 5 IS NOT NULL

-- name: finish_items
-- Those of a batch completion whose claim is the live one. The plus keeps SQLite from walking
-- through everything in progress; it looks the ids up.
UPDATE work_items SET
  came_from = status, status = 'completed', reason = 'complete', updated_at = :now,
  completed_at = :now, outcome = 'success', notes = coalesce(r.value ->> 2, notes), slot = NULL,
  claim_token = NULL, lease_expires_at = NULL, heartbeat_at = NULL, progress = NULL,
  version = version + 1
FROM json_each(:rows) AS r
WHERE work_items.id = r.value ->> 0 AND +status = 'in_progress' AND claim_token = r.value ->> 1
RETURNING @item

-- name: finish_log
UPDATE dispatch_log SET completed_at = :now, outcome = 'success'
FROM json_each(:rows) AS r
WHERE dispatch_log.work_item_id = r.value ->> 0 AND dispatch_log.completed_at IS NULL

-- name: finish_events
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch, data)
SELECT 'work.completed', :now, r.value ->> 3, w.id, w.project_id, w.assigned_agent, w.reason,
       w.came_from, w.status, w.epoch, r.value ->> 4
FROM json_each(:rows) AS r CROSS JOIN work_items w ON w.id = r.value ->> 0

-- name: log_dispatch
INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)
VALUES (:dispatch_id, :id, :now, :agent)

-- name: close_dispatch
UPDATE dispatch_log SET completed_at = :now, outcome = :outcome
WHERE work_item_id = :id AND completed_at IS NULL

-- name: dispatches_of
SELECT id, work_item_id, dispatched_at, agent, completed_at, outcome
FROM dispatch_log WHERE work_item_id = :id ORDER BY dispatched_at, id
