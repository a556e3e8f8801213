-- Notifications: how far the log was read for them, and what waits to be told together. What is
-- told at once goes to the outbox and never stands here.

CREATE TABLE notify_marks (
  name  text COLLATE "C" PRIMARY KEY NOT NULL,  -- 'position', and 'budget:AGENT' for the day it was told of
  value text COLLATE "C" NOT NULL
);

CREATE TABLE notices (
  id         text COLLATE "C" PRIMARY KEY NOT NULL,  -- of the event, the rule and the channel
  channel    text COLLATE "C" NOT NULL,
  bundle     text COLLATE "C" NOT NULL,                 -- what it is told together with
  event_seq  bigint NOT NULL,
  content    text COLLATE "C" NOT NULL,
  created_at text COLLATE "C" NOT NULL,
  due_at     text COLLATE "C" NOT NULL
);
CREATE INDEX notices_due ON notices (due_at);
CREATE INDEX notices_together ON notices (channel, bundle, due_at);
