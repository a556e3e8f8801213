-- What the files of servers declare.

-- name: lock_declarations
-- SQLite has one writer at a time, so there is nothing to lock.
SELECT 1 WHERE 1 = 0

-- name: declarations
SELECT name, home, wanted FROM declarations WHERE kind = :kind ORDER BY name, home

-- name: declare
INSERT INTO declarations (kind, name, home, wanted)
SELECT :kind, value, :home, 1 FROM json_each(:names) WHERE true
ON CONFLICT (kind, name, home) DO UPDATE SET wanted = 1 WHERE declarations.wanted = 0

-- name: withdraw
UPDATE declarations SET wanted = 0 WHERE kind = :kind AND home = :home AND wanted = 1
  AND name NOT IN (SELECT value FROM json_each(:names))

-- name: forget_declaration
DELETE FROM declarations WHERE kind = :kind AND name = :name
