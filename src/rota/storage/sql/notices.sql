-- Notifications: how far the event log was read, and the notices that wait to be sent in a bundle.

-- name: get_mark
SELECT value FROM notify_marks WHERE name = :name

-- name: lock_mark
-- On PostgreSQL the reader of the event log for notifications locks this row: there is only one.
UPDATE notify_marks SET value = value WHERE name = :name RETURNING value

-- name: begin_mark
INSERT INTO notify_marks (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO NOTHING RETURNING name

-- name: put_mark
INSERT INTO notify_marks (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = :value

-- name: forget_marks
DELETE FROM notify_marks

-- name: forget_notices
DELETE FROM notices

-- name: put_notice
INSERT INTO notices (id, channel, bundle, event_seq, content, created_at, due_at)
VALUES (:id, :channel, :bundle, :event_seq, :content, :created_at, :due_at)
ON CONFLICT (id) DO NOTHING

-- name: bundle_due
SELECT min(due_at) FROM notices WHERE channel = :channel AND bundle = :bundle

-- name: due_bundles
SELECT DISTINCT channel, bundle FROM notices WHERE due_at <= :now ORDER BY channel, bundle

-- name: take_notices
-- Two transactions never take the same row: the second finds it deleted.
DELETE FROM notices WHERE id IN (
  SELECT id FROM notices WHERE channel = :channel AND bundle = :bundle
  ORDER BY event_seq, id LIMIT :want)
RETURNING id, channel, bundle, event_seq, content, created_at, due_at

-- name: next_notice
SELECT min(due_at) FROM notices
