-- name: lock_declarations
-- Two servers that start at once do not see each other's signals, and would both make them.
SELECT pg_advisory_xact_lock(1383035493)

-- name: declare
INSERT INTO declarations (kind, name, home, wanted)
SELECT CAST(:kind AS text), value, CAST(:home AS text), 1
FROM jsonb_array_elements_text(CAST(:names AS jsonb))
ON CONFLICT (kind, name, home) DO UPDATE SET wanted = 1 WHERE declarations.wanted = 0

-- name: withdraw
UPDATE declarations SET wanted = 0 WHERE kind = :kind AND home = :home AND wanted = 1
  AND name NOT IN (SELECT jsonb_array_elements_text(CAST(:names AS jsonb)))
