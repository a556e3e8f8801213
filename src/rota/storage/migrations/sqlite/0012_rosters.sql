-- Which schedules each node has in its file: what no living node has may be dropped, and no other.
CREATE TABLE rosters (
  node      TEXT PRIMARY KEY NOT NULL,
  schedules TEXT NOT NULL  -- the names of its schedules, by agent
) STRICT, WITHOUT ROWID;
