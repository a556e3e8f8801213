-- name: arrivals
-- OFFSET 0 keeps the planner from joining the whole table: it looks up each item's events.
SELECT i.id, e.to_status, e.occurred_at
FROM jsonb_array_elements_text(CAST(:items AS jsonb)) AS i (id)
CROSS JOIN LATERAL (SELECT seq, to_status, occurred_at FROM events
                    WHERE work_item_id = i.id AND to_status IS NOT NULL OFFSET 0) AS e
ORDER BY i.id, e.seq
