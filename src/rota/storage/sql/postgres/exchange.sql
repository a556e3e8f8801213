-- name: begin_import
LOCK TABLE projects, work_items, events, work_signals IN SHARE ROW EXCLUSIVE MODE

-- name: given_rows
SELECT value FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r (value)

-- name: import_events
INSERT INTO events (seq, type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch, data)
OVERRIDING SYSTEM VALUE
SELECT (value ->> 0)::bigint, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
       value ->> 6, value ->> 7, value ->> 8, value ->> 9, (value ->> 10)::int, value ->> 11
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r (value)
ON CONFLICT DO NOTHING RETURNING seq

-- name: settle_event_numbers
-- Forward only: a transaction that is still open may hold numbers that were already handed out.
SELECT setval('events_seq_seq', greatest((SELECT max(seq) FROM events),
                                         (SELECT last_value FROM events_seq_seq)))

-- name: import_claims
INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)
SELECT value ->> 0, (value ->> 1)::int,
       coalesce((SELECT w.claim_token FROM work_items w
                 WHERE w.id = value ->> 0 AND w.epoch = (value ->> 1)::int), value ->> 6),
       value ->> 2, (value ->> 3)::int, value ->> 4, (value ->> 5)::double precision
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r (value)
ON CONFLICT DO NOTHING RETURNING work_item_id, epoch
