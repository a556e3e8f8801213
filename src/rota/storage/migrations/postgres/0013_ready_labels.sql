-- The labels of what may be taken, in the order of taking. A claim with a label reads this table: an
-- index over all labels also has what is done, and the queue itself also has what lacks the label.
-- Triggers keep it, so that no statement can forget it.
CREATE TABLE ready_labels (
  label         text COLLATE "C" NOT NULL,
  item_priority integer NOT NULL,
  work_item_id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (label, item_priority, work_item_id)
);

INSERT INTO ready_labels (label, item_priority, work_item_id)
SELECT l.label, w.priority, w.id FROM work_items w JOIN work_item_labels l ON l.work_item_id = w.id
WHERE status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0 AND source IS NULL;

CREATE FUNCTION ready_labels_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM ready_labels
  WHERE label IN (SELECT l.label FROM work_item_labels l WHERE l.work_item_id = OLD.id)
    AND item_priority = OLD.priority AND work_item_id = OLD.id;
  INSERT INTO ready_labels (label, item_priority, work_item_id)
  SELECT l.label, NEW.priority, NEW.id FROM work_item_labels l
  WHERE l.work_item_id = NEW.id
    AND NEW.status = 'queued' AND NEW.assigned_agent IS NULL AND NEW.hold_reason IS NULL
    AND NEW.open_blockers = 0 AND NEW.deferred = 0 AND NEW.source IS NULL;
  RETURN NULL;
END $$;
CREATE TRIGGER ready_labels_follow_the_item
  AFTER UPDATE OF status, assigned_agent, hold_reason, open_blockers, deferred, priority
  ON work_items FOR EACH ROW WHEN (NEW.labels <> '[]')
  EXECUTE FUNCTION ready_labels_follow();

CREATE FUNCTION ready_labels_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ready_labels (label, item_priority, work_item_id)
  SELECT NEW.label, priority, id FROM work_items
  WHERE id = NEW.work_item_id AND status = 'queued' AND assigned_agent IS NULL AND hold_reason IS NULL
    AND open_blockers = 0 AND deferred = 0 AND source IS NULL;
  RETURN NULL;
END $$;
CREATE TRIGGER ready_labels_get_a_label AFTER INSERT ON work_item_labels
  FOR EACH ROW EXECUTE FUNCTION ready_labels_add();

CREATE FUNCTION ready_labels_drop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM ready_labels
  WHERE label = OLD.label AND work_item_id = OLD.work_item_id
    AND item_priority = (SELECT priority FROM work_items WHERE id = OLD.work_item_id);
  RETURN NULL;
END $$;
CREATE TRIGGER ready_labels_lose_a_label AFTER DELETE ON work_item_labels
  FOR EACH ROW EXECUTE FUNCTION ready_labels_drop();
