-- Notifications: how far the log was read for them, and what waits to be told together. What is
-- told at once goes to the outbox and never stands here.

CREATE TABLE notify_marks (
  name  TEXT PRIMARY KEY NOT NULL,  -- 'position', and 'budget:AGENT' for the day it was told of
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notices (
  id         TEXT PRIMARY KEY NOT NULL,  -- of the event, the rule and the channel
  channel    TEXT NOT NULL,
  bundle     TEXT NOT NULL,              -- what it is told together with
  event_seq  INTEGER NOT NULL,
  content    TEXT NOT NULL,
  created_at TEXT NOT NULL,
  due_at     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX notices_due ON notices (due_at);
CREATE INDEX notices_together ON notices (channel, bundle, due_at);
