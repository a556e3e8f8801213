-- fragment: take_row
-- One entry of `:rows`, with the column names that the statements of a claim use.
SELECT value ->> 0 AS id, (value ->> 1)::int AS epoch, value ->> 2 AS token, value ->> 3 AS agent,
       (value ->> 4)::int AS slot, value ->> 5 AS dispatch_id, value ->> 6 AS expires_at,
       (value ->> 7)::float8 AS lease_seconds, value ->> 8 AS project_id, k
FROM jsonb_array_elements(CAST(:rows AS jsonb)) WITH ORDINALITY AS r (value, k)

-- name: seats
-- No EXISTS for the named items: PostgreSQL would plan it as one scan of the whole table.
SELECT r.value, coalesce(a.max_concurrent, 1), coalesce(a.paused, 0),
  (SELECT string_agg(w.slot::text, ',') FROM work_items w
   WHERE w.assigned_agent = r.value AND w.status = 'in_progress'),
  coalesce((SELECT 1 FROM work_items w WHERE w.assigned_agent = r.value
            AND w.status IN ('dispatched', 'queued') AND w.completed_at IS NULL
            AND w.slot IS NULL LIMIT 1), 0),
  a.max_in_review,
  CASE WHEN a.max_in_review IS NULL THEN 0 ELSE
    (SELECT count(*) FROM work_items w WHERE w.assigned_agent = r.value
     AND w.status = 'in_review' AND w.completed_at IS NULL AND w.slot IS NULL) END
FROM jsonb_array_elements_text(CAST(:agents AS jsonb)) AS r (value)
LEFT JOIN agents a ON a.name = r.value

-- name: take_items
-- The statements that found the rows have locked them. The ids are also given as an array, because
-- the planner does not know how few rows there are: with an array it looks the ids up, with a join
-- alone it reads the whole table. The events are joined to the update, so that they get their
-- numbers after it: the update may have waited for the end of the item that had the slot before,
-- and that end must have the lower number.
WITH r AS MATERIALIZED (@take_row), taken AS (
  UPDATE work_items w SET
    came_from = w.status, status = 'in_progress', reason = 'claimed', updated_at = :now,
    assigned_agent = r.agent, slot = r.slot, epoch = r.epoch, claim_token = r.token,
    lease_expires_at = r.expires_at, attempts = w.attempts + 1, version = w.version + 1
  FROM r WHERE w.id = r.id AND w.id = ANY (ARRAY(SELECT id FROM r)) RETURNING w.id
), claimed AS (
  INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)
  SELECT id, epoch, token, agent, slot, :now, lease_seconds FROM r
), logged AS (
  INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)
  SELECT dispatch_id, id, :now, agent FROM r WHERE dispatch_id IS NOT NULL
)
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch)
SELECT e.type, :now, agent, id, project_id, agent, 'claimed', e.source, e.target, epoch
FROM r JOIN taken USING (id) CROSS JOIN (VALUES ('work.dispatched', 'queued', 'dispatched'),
                          ('work.started', 'dispatched', 'in_progress'))
  AS e (type, source, target)
WHERE e.source = 'dispatched' OR dispatch_id IS NOT NULL
ORDER BY k, e.source DESC

-- name: finish_items
WITH r AS MATERIALIZED (
  SELECT value ->> 0 AS id, value ->> 1 AS token, value ->> 2 AS notes, value ->> 3 AS actor,
         value ->> 4 AS data, k
  FROM jsonb_array_elements(CAST(:rows AS jsonb)) WITH ORDINALITY AS j (value, k)
), done AS (
  UPDATE work_items w SET
    came_from = w.status, status = 'completed', reason = 'complete', updated_at = :now,
    completed_at = :now, outcome = 'success', notes = coalesce(r.notes, w.notes), slot = NULL,
    claim_token = NULL, lease_expires_at = NULL, heartbeat_at = NULL, progress = NULL,
    version = w.version + 1
  FROM r WHERE w.id = r.id AND w.id = ANY (ARRAY(SELECT id FROM r))
    AND w.status || '' = 'in_progress' AND w.claim_token = r.token
  RETURNING @item_w, r.actor, r.data, r.k
), closed AS (
  UPDATE dispatch_log l SET completed_at = :now, outcome = 'success'
  FROM done WHERE l.work_item_id = done.id AND l.completed_at IS NULL
), told AS (
  INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                      from_status, to_status, epoch, data)
  SELECT 'work.completed', :now, actor, id, project_id, assigned_agent, reason, came_from, status,
         epoch, data
  FROM done ORDER BY k
)
SELECT @item FROM done
