-- Items that have a source, our claims on trackers, and the states of sources.

-- name: outside_item
-- The live item, else the latest. One reference has few items, so sorting them is cheap.
SELECT @item FROM work_items WHERE source = :source AND source_ref = :source_ref
ORDER BY completed_at IS NOT NULL, id DESC LIMIT 1

-- name: outside_items
-- The live items of some references (`:refs` is a JSON array), each with `hold_by`.
SELECT @item_w, w.hold_by FROM json_each(:refs) AS r CROSS JOIN work_items w
  ON w.source = :source AND w.source_ref = r.value AND w.completed_at IS NULL

-- name: live_references
SELECT w.id, w.source_ref, w.status, w.version,
  CASE WHEN EXISTS (SELECT 1 FROM source_claims c WHERE c.source = w.source
                    AND c.source_ref = w.source_ref AND c.ended_at IS NULL) THEN 1 ELSE 0 END
FROM work_items w WHERE w.source = :source AND w.completed_at IS NULL ORDER BY w.id

-- name: hold_by
SELECT hold_by FROM work_items WHERE id = :id

-- fragment: source_claim
-- The token is given only while the item's claim has this epoch and its lease runs. The token of a
-- lapsed lease stays in the item's row until the sweeper removes it.
c.firing_id, c.source, c.source_ref, c.work_item_id, c.epoch, c.codename, c.fleet, c.nonce,
c.entry_id, c.created_at, c.ended_at, c.outcome, w.status,
CASE WHEN w.epoch = c.epoch AND w.lease_expires_at > :now THEN w.claim_token END,
CASE WHEN w.epoch = c.epoch AND w.lease_expires_at <= :now AND w.claim_token IS NOT NULL
  THEN 1 ELSE 0 END

-- name: insert_source_claim
INSERT INTO source_claims (firing_id, source, source_ref, work_item_id, epoch, codename, fleet,
                           nonce, created_at)
VALUES (:firing_id, :source, :source_ref, :id, :epoch, :codename, :fleet, :nonce, :now)
ON CONFLICT DO NOTHING RETURNING firing_id

-- name: find_source_claim
SELECT @source_claim FROM source_claims c JOIN work_items w ON w.id = c.work_item_id
WHERE c.firing_id = :firing_id

-- name: open_source_claims
SELECT @source_claim FROM source_claims c JOIN work_items w ON w.id = c.work_item_id
WHERE c.source = :source AND c.ended_at IS NULL ORDER BY c.work_item_id, c.epoch

-- name: latest_source_claim
-- The latest open claim. An older open claim may still wait for the sweep of its source.
SELECT @source_claim FROM source_claims c JOIN work_items w ON w.id = c.work_item_id
WHERE c.source = :source AND c.source_ref = :source_ref AND c.ended_at IS NULL
ORDER BY c.work_item_id DESC, c.epoch DESC LIMIT 1

-- name: enter_source_claim
-- If a tracker stored the claim twice, the lower entry number counts.
UPDATE source_claims SET entry_id = :entry_id
WHERE firing_id = :firing_id AND coalesce(entry_id, :entry_id) >= :entry_id RETURNING firing_id

-- name: give_back_source_claim
-- An end and outcome that were already recorded are kept.
UPDATE source_claims SET given_back_at = :now, ended_at = coalesce(ended_at, :now),
                         outcome = coalesce(outcome, :outcome)
WHERE firing_id = :firing_id AND given_back_at IS NULL RETURNING firing_id

-- name: end_source_claim
UPDATE source_claims SET ended_at = :now, outcome = :outcome
WHERE firing_id = :firing_id AND ended_at IS NULL RETURNING firing_id

-- name: put_approval
-- An older approval that is seen late does not replace a newer approval of the same text.
INSERT INTO approvals (source, source_ref, text_hash, approved_by, approved_at, seen_at)
VALUES (:source, :source_ref, :text_hash, :approved_by, :approved_at, :now)
ON CONFLICT (source, source_ref, text_hash) DO UPDATE SET
  approved_by = CASE WHEN excluded.approved_at >= approvals.approved_at
                     THEN excluded.approved_by ELSE approvals.approved_by END,
  approved_at = CASE WHEN excluded.approved_at >= approvals.approved_at
                     THEN excluded.approved_at ELSE approvals.approved_at END,
  seen_at = excluded.seen_at

-- name: latest_approval
SELECT source, source_ref, text_hash, approved_by, approved_at, seen_at FROM approvals
WHERE source = :source AND source_ref = :source_ref
ORDER BY approved_at DESC, seen_at DESC, text_hash LIMIT 1

-- name: keep_delivery
INSERT INTO deliveries (id, received_at) VALUES (:id, :now) ON CONFLICT DO NOTHING RETURNING id

-- name: forget_deliveries
DELETE FROM deliveries WHERE received_at < :before

-- name: insert_source_state
INSERT INTO source_states (source) VALUES (:source) ON CONFLICT DO NOTHING

-- fragment: source_state
source, polled_at, poll_error, swept_at, warning, settle_seconds, requests, rate_remaining,
rate_limit, rate_reset_at

-- name: source_state
SELECT @source_state FROM source_states WHERE source = :source

-- name: source_states
SELECT @source_state FROM source_states ORDER BY source

-- name: insert_fleet
INSERT INTO fleet (only_one, id) VALUES (1, :id) ON CONFLICT DO NOTHING

-- name: fleet
SELECT id FROM fleet

-- name: uncount_attempt
-- A claim that its source did not grant was no attempt. Later claims have added one attempt for
-- each epoch since. If `attempts` is higher than that, this attempt is still counted and is
-- subtracted. Otherwise a retry in between has reset the attempts: there is nothing to subtract.
UPDATE work_items SET attempts = attempts - 1
WHERE id = :id AND completed_at IS NULL AND attempts > epoch - :epoch
  AND (epoch > :epoch OR epoch = :epoch AND status IN ('queued', 'dispatched'))

-- name: waiting_reviews
-- For one place on a tracker, with http or https. The item looked at longest ago comes first.
SELECT w.id, w.version, w.artifact_url, w.source, w.source_ref
FROM work_items w LEFT JOIN reviews v ON v.work_item_id = w.id
WHERE w.status = 'in_review' AND w.slot IS NULL AND w.status <> 'queued' AND (
  lower(substr(w.artifact_url, 1, length(CAST(:place AS text)) + 8)) = 'https://' || :place
  OR lower(substr(w.artifact_url, 1, length(CAST(:place AS text)) + 7)) = 'http://' || :place)
ORDER BY coalesce(v.looked_at, ''), w.id LIMIT :limit

-- name: put_review
INSERT INTO reviews (work_item_id, source, address, found, looked_at)
VALUES (:item_id, :source, :address, :found, :now)
ON CONFLICT (work_item_id) DO UPDATE SET
  source = excluded.source, address = excluded.address, found = excluded.found,
  looked_at = excluded.looked_at

-- name: forget_reviews
DELETE FROM reviews WHERE source = :source
  AND work_item_id NOT IN (SELECT id FROM work_items WHERE status = 'in_review' AND slot IS NULL
                           AND status <> 'queued')

-- name: review_look
SELECT work_item_id, source, address, found, looked_at FROM reviews WHERE work_item_id = :id
