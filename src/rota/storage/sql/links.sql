-- name: add_blocker
INSERT INTO work_item_links (work_item_id, blocker_id) VALUES (:id, :blocker_id)
ON CONFLICT DO NOTHING

-- name: count_dependent
-- Counts one more dependent of a blocker and returns the blocker's status. On PostgreSQL the row
-- lock of this UPDATE serialises a new link against the completion of its blocker.
UPDATE work_items SET dependents = dependents + 1 WHERE id = :blocker_id RETURNING status

-- name: add_open_blockers
UPDATE work_items SET open_blockers = open_blockers + :n WHERE id = :id

-- name: release_blockers
UPDATE work_items SET dependents = dependents - 1
WHERE id IN (SELECT blocker_id FROM work_item_links WHERE work_item_id = :id)

-- name: delete_blockers
DELETE FROM work_item_links WHERE work_item_id = :id

-- name: zero_open_blockers
UPDATE work_items SET open_blockers = 0 WHERE id = :id

-- name: blockers_of
SELECT l.work_item_id, l.blocker_id, w.status, w.description
FROM work_item_links l JOIN work_items w ON w.id = l.blocker_id
WHERE l.work_item_id = :id ORDER BY l.blocker_id

-- name: blocked_by
-- The items that wait for this one, with their own status and text.
SELECT l.work_item_id, l.blocker_id, w.status, w.description
FROM work_item_links l JOIN work_items w ON w.id = l.work_item_id
WHERE l.blocker_id = :id ORDER BY l.work_item_id

-- name: reaches
WITH RECURSIVE above (id) AS (
  SELECT blocker_id FROM work_item_links WHERE work_item_id = :start
  UNION
  SELECT l.blocker_id FROM work_item_links l JOIN above ON l.work_item_id = above.id
)
SELECT 1 FROM above WHERE id = :target LIMIT 1

-- name: unblock_dependents
UPDATE work_items SET open_blockers = open_blockers - 1, version = version + 1, updated_at = :now
WHERE open_blockers > 0
  AND id IN (SELECT work_item_id FROM work_item_links WHERE blocker_id = :id)
RETURNING @item
