-- Signals, firings and follow-ups.

-- fragment: signal
id, work_item_id, name, trigger_spec, action, status, max_fires, fires, max_depth, expires_at,
created_by, configured, created_at, updated_at, last_fired_at, last_fired_seq

-- name: insert_signal
INSERT INTO work_signals (id, work_item_id, name, trigger_kind, trigger_spec, action, status,
                          max_fires, max_depth, expires_at, created_by, configured, created_at,
                          updated_at)
VALUES (:id, :work_item_id, :name, :trigger_kind, :trigger_spec, :action, 'active', :max_fires,
        :max_depth, :expires_at, :created_by, :configured, :now, :now)

-- name: insert_young
-- On SQLite, no move is under way while a signal is made.
SELECT :id WHERE 1 = 0

-- name: has_young
SELECT 1 WHERE 1 = 0

-- name: bound_young
SELECT 1 WHERE 1 = 0

-- name: catch_up
SELECT 1 WHERE 1 = 0

-- name: insert_signal_keys
INSERT INTO signal_keys (key, signal_id) SELECT value, :id FROM json_each(:keys)

-- name: is_heard
SELECT 1 FROM signal_keys WHERE key = :key LIMIT 1

-- name: drop_signal_keys
DELETE FROM signal_keys WHERE signal_id = :id

-- name: get_signal
SELECT @signal FROM work_signals WHERE id = :id

-- name: list_signals
SELECT @signal FROM work_signals WHERE id > :after
  AND (:status = '' OR status = :status) AND (:item = '' OR work_item_id = :item)
ORDER BY id LIMIT :want

-- name: newest_signals
SELECT @signal FROM work_signals WHERE id < :after
  AND (:status = '' OR status = :status) AND (:item = '' OR work_item_id = :item)
ORDER BY id DESC LIMIT :want

-- name: named_signals
SELECT @signal FROM work_signals WHERE status = 'active' AND configured = 1 ORDER BY name

-- name: declared_signal
-- An id follows the clock of the server that made it, so an ended signal may have a higher id than
-- the active one.
SELECT @signal FROM work_signals WHERE configured = 1 AND name = :name
ORDER BY CASE status WHEN 'active' THEN 0 ELSE 1 END, id DESC LIMIT 1

-- name: signal_named
SELECT id FROM work_signals WHERE name = :name AND status = 'active'

-- name: fire_signal
UPDATE work_signals SET fires = fires + 1, last_fired_at = :now, last_fired_seq = :seq,
  updated_at = :now, status = CASE WHEN :last = 1 THEN 'fired' ELSE status END
WHERE id = :id AND status = 'active' AND fires = :fires RETURNING id

-- name: end_signal
UPDATE work_signals SET status = :status, updated_at = :now
WHERE id = :id AND status = 'active' RETURNING id

-- name: expiring_signals
SELECT id FROM work_signals
WHERE status = 'active' AND expires_at IS NOT NULL AND expires_at <= :now LIMIT 500

-- name: next_signal_end
SELECT min(expires_at) FROM work_signals WHERE status = 'active' AND expires_at IS NOT NULL

-- fragment: firing
id, signal_id, dedupe_key, event_seq, work_item_id, status, attempt, next_attempt_at, created_at,
lease_owner, lease_expires_at, processed_at, error, result

-- name: insert_firing
INSERT INTO work_signal_firings (id, signal_id, dedupe_key, event_seq, work_item_id, status,
                                 next_attempt_at, created_at)
VALUES (:id, :signal_id, :dedupe_key, :event_seq, :work_item_id, 'queued', :next_attempt_at,
        :created_at)
ON CONFLICT DO NOTHING RETURNING id

-- name: take_firings
UPDATE work_signal_firings SET status = 'processing', attempt = attempt + 1, lease_owner = :owner,
  lease_expires_at = :until, next_attempt_at = :until
WHERE id IN (SELECT id FROM work_signal_firings WHERE status IN ('queued', 'processing')
             AND next_attempt_at <= :now
             AND (:since = '' OR (attempt = 0 AND created_at >= :since))
             ORDER BY next_attempt_at LIMIT :want)
RETURNING @firing

-- name: get_firing
SELECT @firing FROM work_signal_firings WHERE id = :id

-- name: firing_facts
-- The signal of a firing, its event, the item that the action is about, and whether a signal made
-- the item that caused the firing.
SELECT @signal_s, @event_e, @item_w,
  EXISTS (SELECT 1 FROM signal_lineage l WHERE l.work_item_id = :item)
FROM work_signals s
LEFT JOIN events e ON e.seq = :seq
LEFT JOIN work_items w ON w.id = coalesce(s.work_item_id, :item)
WHERE s.id = :id

-- name: end_firing
UPDATE work_signal_firings SET status = :status, error = :error, result = :result,
  processed_at = :now, lease_owner = NULL, lease_expires_at = NULL
WHERE id = :id AND status = 'processing' AND lease_owner = :owner RETURNING id

-- name: postpone_firing
UPDATE work_signal_firings SET status = 'queued', next_attempt_at = :until, error = :error,
  attempt = attempt - :uncounted, lease_owner = NULL, lease_expires_at = NULL
WHERE id = :id AND status = 'processing' AND lease_owner = :owner RETURNING id

-- name: skip_firings
UPDATE work_signal_firings SET status = 'skipped', error = :error, processed_at = :now,
  lease_owner = NULL, lease_expires_at = NULL
WHERE status IN ('queued', 'processing') AND id IN (SELECT value FROM json_each(:ids))

-- name: retry_firing
UPDATE work_signal_firings SET status = 'queued', attempt = 0, next_attempt_at = :now,
  processed_at = NULL
WHERE id = :id AND status = 'failed' RETURNING id

-- name: firings_of
SELECT @firing FROM work_signal_firings WHERE signal_id = :id
ORDER BY created_at DESC, event_seq DESC LIMIT :want

-- name: list_firings
SELECT @firing FROM work_signal_firings
WHERE status = :status AND (created_at, id) > (:created_at, :after)
ORDER BY created_at, id LIMIT :want

-- name: next_firing
SELECT min(next_attempt_at) FROM work_signal_firings WHERE status IN ('queued', 'processing')

-- name: has_moved_since
SELECT 1 FROM events WHERE work_item_id = :id AND seq > :seq AND to_status IS NOT NULL LIMIT 1

-- name: count_moves
SELECT count(*) FROM events WHERE work_item_id = :id AND seq <= :seq
  AND to_status IN (SELECT value FROM json_each(:statuses))
  AND (:origins = '[]' OR from_status IN (SELECT value FROM json_each(:origins)))
  AND (:reasons = '[]' OR reason IN (SELECT value FROM json_each(:reasons)))

-- fragment: open_firings
-- The plus makes SQLite read all open firings, and not every firing that the signal ever had.
(SELECT json_group_array(id) FROM work_signal_firings
 WHERE status IN ('queued', 'processing') AND +signal_id = :signal)

-- name: gather_items
SELECT json_array_length(:items), (SELECT count(*) FROM json_each(:items) AS i WHERE EXISTS (
  SELECT 1 FROM work_items w WHERE w.id = i.value
  AND w.status IN (SELECT value FROM json_each(:statuses)))), @open_firings

-- name: gather_project
SELECT count(*), coalesce(sum(CASE WHEN status IN (SELECT value FROM json_each(:statuses))
                                   THEN 1 ELSE 0 END), 0), @open_firings
FROM work_items WHERE project_id = :project

-- name: put_lineage
INSERT INTO signal_lineage (work_item_id, parent_id, signal_id, follows_id)
VALUES (:id, :parent_id, :signal_id, :follows_id) ON CONFLICT DO NOTHING

-- name: followed
-- The item that this one follows.
SELECT w.id, w.status, w.description
FROM signal_lineage l JOIN work_items w ON w.id = l.follows_id WHERE l.work_item_id = :id

-- name: followers
SELECT w.id, w.status, w.description
FROM signal_lineage l JOIN work_items w ON w.id = l.work_item_id
WHERE l.follows_id = :id ORDER BY l.work_item_id LIMIT :limit

-- name: ancestry
WITH RECURSIVE line (work_item_id, parent_id, signal_id, step) AS (
  SELECT work_item_id, parent_id, signal_id, 1 FROM signal_lineage WHERE work_item_id = :id
  UNION ALL
  SELECT l.work_item_id, l.parent_id, l.signal_id, line.step + 1
  FROM line JOIN signal_lineage l ON l.work_item_id = line.parent_id WHERE line.step < 1000
)
SELECT signal_id FROM line ORDER BY step

-- fragment: follow_up
id, work_item_id, signal_id, firing_id, title, body, status, agent, created_at, holder,
lease_token, lease_expires_at, attempts, completed_at, outcome, notes

-- name: insert_follow_up
INSERT INTO work_item_tasks (id, work_item_id, signal_id, firing_id, title, body, status, agent,
                             created_at)
VALUES (:id, :work_item_id, :signal_id, :firing_id, :title, :body, 'open', :agent, :now)
ON CONFLICT DO NOTHING RETURNING id

-- name: get_follow_up
SELECT @follow_up FROM work_item_tasks WHERE id = :id

-- name: list_follow_ups
SELECT @follow_up FROM work_item_tasks WHERE id > :after AND (:status = '' OR status = :status)
  AND (:agent = '' OR agent IS NULL OR agent = :agent)
ORDER BY id LIMIT :want

-- name: follow_ups_of
-- As `list_follow_ups`, for one item. A single text for both could not use the index by item.
SELECT @follow_up FROM work_item_tasks WHERE work_item_id = :item AND id > :after
  AND (:status = '' OR status = :status) AND (:agent = '' OR agent IS NULL OR agent = :agent)
ORDER BY id LIMIT :want

-- name: lease_follow_up
-- The first condition is implied by the second, but repeats the WHERE clause of a partial index.
UPDATE work_item_tasks SET status = 'leased', holder = :agent, lease_token = :token,
  lease_expires_at = :until, attempts = attempts + 1
WHERE id = (SELECT id FROM work_item_tasks WHERE status IN ('open', 'leased')
            AND (status = 'open' OR lease_expires_at <= :now)
            AND (agent IS NULL OR agent = :agent) ORDER BY id LIMIT 1)
RETURNING @follow_up

-- name: extend_follow_up
UPDATE work_item_tasks SET lease_expires_at = :until
WHERE id = :id AND status = 'leased' AND lease_token = :token RETURNING @follow_up

-- name: end_follow_up
UPDATE work_item_tasks SET status = :status, completed_at = :now, outcome = :outcome,
  notes = coalesce(:notes, notes), lease_token = NULL, lease_expires_at = NULL
WHERE id = :id AND ((status = 'leased' AND lease_token = :token)
                    OR (:token = '' AND (status = 'open'
                                         OR (status = 'leased' AND lease_expires_at <= :now))))
RETURNING @follow_up

-- name: release_follow_up
UPDATE work_item_tasks SET status = 'open', lease_token = NULL, lease_expires_at = NULL
WHERE id = :id AND status = 'leased' AND lease_token = :token RETURNING id
