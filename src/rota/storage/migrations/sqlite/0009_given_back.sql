-- A claim that its source did not grant was no attempt, and is taken back once: also where its end was
-- seen by others first, and however often its claimant says so.
ALTER TABLE source_claims ADD COLUMN given_back_at TEXT;
UPDATE source_claims SET given_back_at = ended_at WHERE ended_at IS NOT NULL;
