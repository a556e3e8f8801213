-- name: outside_items
-- With an array the planner looks the references up; with a join it may read the whole table.
SELECT @item_w, w.hold_by FROM work_items w
WHERE w.source = :source AND w.completed_at IS NULL
  AND w.source_ref = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:refs AS jsonb))))
