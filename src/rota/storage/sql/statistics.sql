-- Figures over a period. Most statements read one range of one index.

-- name: count_open
-- In parts: each part reads one partial index.
SELECT status, count(*) FROM work_items
WHERE status IN ('dispatched', 'blocked', 'in_review') AND slot IS NULL AND status <> 'queued'
GROUP BY status
UNION ALL
SELECT 'in_progress', count(*) FROM work_items WHERE status = 'in_progress'
UNION ALL
SELECT 'queued', (SELECT count(*) FROM work_items WHERE @ready)
               + (SELECT count(*) FROM work_items WHERE @waiting)

-- name: count_created
-- An id contains the time of its creation.
SELECT count(*) FROM work_items WHERE id >= :first AND id < :beyond

-- name: count_ended
SELECT count(*) FROM work_items
WHERE status = :status AND completed_at IS NOT NULL
  AND completed_at >= :begins AND completed_at < :ends

-- name: last_ended
SELECT id, created_at, completed_at FROM work_items
WHERE status = :status AND completed_at IS NOT NULL
  AND completed_at >= :begins AND completed_at < :ends
ORDER BY completed_at DESC LIMIT :want

-- name: arrivals
SELECT work_item_id, to_status, occurred_at FROM events
WHERE work_item_id IN (SELECT value FROM json_each(:items)) AND to_status IS NOT NULL
ORDER BY work_item_id, seq

-- name: failure_reasons
-- Where the reason says no more than the status, the notes are used instead.
SELECT reason, noted, count(*) FROM (
  SELECT reason, CASE WHEN coalesce(reason, '') IN ('', 'fail') THEN substr(notes, 1, 1000) END AS noted
  FROM work_items
  WHERE status = 'failed' AND completed_at IS NOT NULL
    AND completed_at >= :begins AND completed_at < :ends
  ORDER BY completed_at DESC LIMIT :want) AS latest
GROUP BY reason, noted ORDER BY count(*) DESC, reason, noted

-- name: spent_by_status
SELECT status, count(*), coalesce(sum(seconds), 0.0),
       coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost_usd), 0.0)
FROM runs WHERE started_at >= :begins AND started_at < :ends GROUP BY status

-- name: open_runs_by_agent
SELECT agent, count(*) FROM runs WHERE ended_at IS NULL GROUP BY agent ORDER BY agent

-- name: earliest_schedule
SELECT min(next_at) FROM schedules WHERE next_at IS NOT NULL

-- name: post_waiting
SELECT kind, count(*), min(created_at) FROM outbox
WHERE delivered_at IS NULL AND failed_at IS NULL GROUP BY kind

-- name: post_dead
SELECT kind, count(*) FROM outbox WHERE failed_at IS NOT NULL GROUP BY kind
