-- A whole ledger in and out. Most statements of it follow from the shapes of the records
-- (rota.storage.exchanging); here is what does not.

-- name: begin_import
-- Who writes on SQLite has the file for itself.
SELECT 1

-- name: given_rows
-- `:rows` is a JSON array, one array a row; the statements that store them read from here.
SELECT value FROM json_each(:rows)

-- name: import_events
-- With their numbers. SQLite gives the next event a higher one by itself.
INSERT INTO events (seq, type, occurred_at, actor, work_item_id, project_id, agent, reason,
                    from_status, to_status, epoch, data)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11
FROM json_each(:rows) WHERE true
ON CONFLICT DO NOTHING RETURNING seq

-- name: settle_event_numbers
SELECT 1

-- name: import_claims
-- Tokens are not exported. The claim that an item's row says is live gets the token that was put
-- there when the item was imported; the others one that nobody has.
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
-- Read as a whole: who imports does so once in a while.
SELECT id, status, payload FROM work_items
WHERE payload LIKE '%"imported_from"%' AND id > :after ORDER BY id LIMIT :limit
