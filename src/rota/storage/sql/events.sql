-- fragment: event
seq, type, occurred_at, actor, work_item_id, project_id, agent, reason, from_status, to_status,
epoch, data

-- name: append_events
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch, data)
SELECT * FROM (VALUES :rows) WHERE column1 IS NOT NULL

-- name: events_after
-- SQLite has one writer at a time, so sequence numbers are in the order of commits.
-- rota.storage.select.narrowed puts filters in the place of the marker. The last column says
-- whether the event may be shown already.
SELECT @event, 1 FROM events WHERE seq > :after /*filters*/ ORDER BY seq LIMIT :limit

-- name: events_of
SELECT @event FROM (
  SELECT @event FROM events WHERE work_item_id = :id ORDER BY seq DESC LIMIT :limit) AS newest
ORDER BY seq

-- name: events_of_type
SELECT @event FROM (
  SELECT @event FROM events WHERE work_item_id = :id AND type = :type
  ORDER BY seq DESC LIMIT :limit) AS newest
ORDER BY seq

-- name: highest_event
SELECT coalesce(max(seq), 0) FROM events

-- name: last_event
SELECT coalesce(max(seq), 0) FROM events
