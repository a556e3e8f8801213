-- fragment: claim
work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds, expires_at, heartbeat_at,
progress, ended_at, end_reason

-- name: insert_claim
INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds,
                    expires_at)
VALUES (:id, :epoch, :token, :agent, :slot, :now, :lease_seconds, :expires_at)

-- name: live_claim
SELECT @claim FROM claims WHERE work_item_id = :id AND ended_at IS NULL

-- name: find_claim
SELECT @claim FROM claims WHERE work_item_id = :id AND token = :token

-- name: extend_claim
UPDATE claims SET heartbeat_at = :now, expires_at = :expires_at,
                  progress = coalesce(:progress, progress)
WHERE work_item_id = :id AND token = :token AND ended_at IS NULL
RETURNING @claim

-- name: end_claim
UPDATE claims SET ended_at = :now, end_reason = :reason
WHERE work_item_id = :id AND ended_at IS NULL

-- name: lapsed_claims
SELECT @claim FROM claims WHERE ended_at IS NULL AND expires_at <= :now
ORDER BY expires_at LIMIT :limit

-- name: next_expiry
SELECT min(expires_at) FROM claims WHERE ended_at IS NULL

-- name: log_dispatch
INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)
VALUES (:dispatch_id, :id, :now, :agent)

-- name: close_dispatch
UPDATE dispatch_log SET completed_at = :now, outcome = :outcome
WHERE work_item_id = :id AND completed_at IS NULL

-- name: dispatches_of
SELECT id, work_item_id, dispatched_at, agent, completed_at, outcome
FROM dispatch_log WHERE work_item_id = :id ORDER BY dispatched_at, id
