-- name: append_events
INSERT INTO events (type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch, data)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, (value ->> 9)::int, value ->> 10
FROM jsonb_array_elements(CAST(:rows AS jsonb)) WITH ORDINALITY AS r (value, k) ORDER BY k

-- name: events_after
-- Numbers are handed out before commit, so number order is not commit order. Readers follow
-- (txid, seq) and stop before the oldest transaction still open: whatever commits later has a
-- higher txid, so it comes after everything that was read. Number order with the same limit
-- would not do: an older transaction may take a higher number than a younger, still open one.
-- The last column is false for events that are held back for this reason.
-- A number that no event has (rolled back, or beyond the end) counts as the event before it.
SELECT @event, txid < pg_snapshot_xmin(pg_current_snapshot()) FROM events
WHERE (txid, seq) > (coalesce((SELECT txid FROM events WHERE seq <= :after
                               ORDER BY seq DESC LIMIT 1), '0'::xid8), :after) /*filters*/
ORDER BY txid, seq LIMIT :limit

-- name: last_event
SELECT coalesce((SELECT seq FROM events WHERE txid < pg_snapshot_xmin(pg_current_snapshot())
                 ORDER BY txid DESC, seq DESC LIMIT 1), 0)

-- name: newest_txid_ahead
-- True after a restore into a new cluster: old events have transaction ids of the old cluster.
SELECT EXISTS (SELECT 1 FROM events
               WHERE txid >= pg_snapshot_xmax(pg_current_snapshot()))

-- name: settle_txids
UPDATE events SET txid = '0'::xid8 WHERE txid <> '0'::xid8
