-- A claim and its end write less: fewer trees, fewer pages, and no lock before the log is closed.

-- Every item stands in one of four indexes, by where it is: what may be taken (work_items_ready), what
-- is queued but may not, what is in somebody's slot (one_in_progress_per_slot), and all else by its
-- status. So a new item enters one tree less, and a claim and its end change six less.
DROP INDEX work_items_by_status;
CREATE INDEX work_items_by_status
  ON work_items (status, priority, id) WHERE slot IS NULL AND status <> 'queued';
CREATE INDEX work_items_waiting
  ON work_items (priority, id)
  WHERE status = 'queued' AND (assigned_agent IS NOT NULL OR hold_reason IS NOT NULL
                               OR open_blockers > 0 OR deferred = 1 OR source IS NOT NULL);
DROP INDEX work_items_by_agent;
CREATE INDEX work_items_by_agent
  ON work_items (assigned_agent, status, priority, id)
  WHERE assigned_agent IS NOT NULL AND completed_at IS NULL AND slot IS NULL;

-- The index by status has nothing any more that a claim would wade through, so that what a claim reads
-- needs no order of its own to be told from it.
DROP INDEX work_items_ready;
CREATE INDEX work_items_ready
  ON work_items (priority, id)
  WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0 AND source IS NULL;
DROP INDEX work_items_ready_by_type;
CREATE INDEX work_items_ready_by_type
  ON work_items (type, priority, id)
  WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0 AND source IS NULL;

-- The log is read by its item, so that is how its key begins, and it has no second tree. A page is
-- filled by less than half: then each of its rows finds room to be closed where it lies.
ALTER TABLE dispatch_log DROP CONSTRAINT dispatch_log_pkey;
ALTER TABLE dispatch_log ADD PRIMARY KEY (work_item_id, id);
DROP INDEX dispatch_log_by_item;
ALTER TABLE dispatch_log SET (fillfactor = 45);

-- A trigger before the change locks each row once more; one behind it refuses as well. What is
-- allowed does not call it.
DROP TRIGGER dispatch_log_closes_once ON dispatch_log;
DROP FUNCTION dispatch_log_guard();
CREATE FUNCTION dispatch_log_refuses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'dispatch_log is append-only: a row may be closed once'; END $$;
CREATE TRIGGER dispatch_log_closes_once AFTER UPDATE ON dispatch_log FOR EACH ROW
  WHEN (OLD.completed_at IS NOT NULL OR NEW.completed_at IS NULL OR NEW.id <> OLD.id
        OR NEW.work_item_id <> OLD.work_item_id OR NEW.dispatched_at <> OLD.dispatched_at
        OR NEW.agent <> OLD.agent)
  EXECUTE FUNCTION dispatch_log_refuses();
CREATE TRIGGER dispatch_log_keeps BEFORE DELETE ON dispatch_log FOR EACH ROW
  EXECUTE FUNCTION dispatch_log_refuses();
