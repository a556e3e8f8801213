-- name: take_post
UPDATE outbox SET attempts = attempts + 1, next_attempt_at = :until WHERE id IN (
  SELECT id FROM outbox WHERE delivered_at IS NULL AND failed_at IS NULL
    AND next_attempt_at <= :now ORDER BY next_attempt_at LIMIT :want FOR UPDATE SKIP LOCKED)
RETURNING @letter

-- name: pending_subjects
SELECT DISTINCT o.subject
FROM json_array_elements_text(CAST(:subjects AS json)) AS s (value)
JOIN outbox o ON o.subject = s.value
WHERE o.delivered_at IS NULL AND o.failed_at IS NULL
