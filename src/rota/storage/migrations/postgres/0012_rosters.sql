-- Which schedules each node has in its file: what no living node has may be dropped, and no other.
CREATE TABLE rosters (
  node      text COLLATE "C" PRIMARY KEY NOT NULL,
  schedules text COLLATE "C" NOT NULL  -- the names of its schedules, by agent
);
