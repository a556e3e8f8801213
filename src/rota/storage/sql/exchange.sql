-- Export and import of a whole ledger. rota.storage.exchanging builds most statements from the
-- shapes of the records; the others are here.

-- name: begin_import
-- SQLite has one writer at a time, so there is nothing to lock.
SELECT 1

-- name: given_rows
-- `:rows` is a JSON array with one array for each row. The generated INSERTs select from this.
SELECT value FROM json_each(:rows)

-- name: import_events
-- Events keep their numbers. SQLite gives the next event a higher number by itself.
INSERT INTO events (seq, type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch, data)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11
FROM json_each(:rows) WHERE true
ON CONFLICT DO NOTHING RETURNING seq

-- name: settle_event_numbers
SELECT 1

-- name: import_claims
-- Tokens are not exported. A claim that is live by its item's row gets the token that the import
-- put into that row. Every other claim gets a token that nobody has.
INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)
SELECT value ->> 0, value ->> 1,
       coalesce((SELECT w.claim_token FROM work_items w
                 WHERE w.id = value ->> 0 AND w.epoch = value ->> 1), value ->> 6),
       value ->> 2, value ->> 3, value ->> 4, value ->> 5
FROM json_each(:rows) WHERE true
ON CONFLICT DO NOTHING RETURNING work_item_id, epoch

-- name: is_heard_at_all
SELECT 1 FROM signal_keys LIMIT 1

-- name: imported_items
-- A full scan is acceptable here: imports are rare.
SELECT id, status, payload FROM work_items
WHERE payload LIKE '%"imported_from"%' AND id > :after ORDER BY id LIMIT :limit
