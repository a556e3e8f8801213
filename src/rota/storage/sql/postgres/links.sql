-- name: lock_links
-- Held until the end of the transaction. Two transactions that each add a link do not see each
-- other's link, and could together close a circle that neither would close alone.
SELECT pg_advisory_xact_lock(1383035491)
