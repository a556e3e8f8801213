-- Which item an item follows that a signal made: the one that the signal is about. The parent, by which
-- loops are found, is the one that moved; they differ where a signal waits for other items.
ALTER TABLE signal_lineage ADD COLUMN follows_id text COLLATE "C";
UPDATE signal_lineage SET follows_id = parent_id;
CREATE INDEX signal_lineage_by_followed ON signal_lineage (follows_id) WHERE follows_id IS NOT NULL;
