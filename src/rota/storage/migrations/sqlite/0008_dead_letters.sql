-- How many letters were given up is asked with every look at the figures, and must not read all that
-- were ever delivered.
CREATE INDEX outbox_dead ON outbox (kind) WHERE failed_at IS NOT NULL;
