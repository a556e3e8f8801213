-- name: lock_links
-- Held until the end of the transaction. Two transactions that each add a link see nothing of
-- each other's, and could close a circle together that neither would close alone.
SELECT pg_advisory_xact_lock(1383035491)
