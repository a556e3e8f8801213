CREATE TABLE projects (id TEXT PRIMARY KEY, name TEXT NOT NULL, external_ref TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE work_items (id TEXT PRIMARY KEY, project_id TEXT REFERENCES projects (id), type TEXT NOT NULL,
  description TEXT NOT NULL, payload TEXT, priority INTEGER DEFAULT 3, status TEXT NOT NULL, assigned_agent TEXT,
  created_by TEXT, created_at TEXT, updated_at TEXT, completed_at TEXT, outcome TEXT, notes TEXT);
CREATE TABLE dispatch_log (id TEXT PRIMARY KEY, work_item_id TEXT REFERENCES work_items (id), dispatched_at TEXT,
  agent TEXT, completed_at TEXT, outcome TEXT);
INSERT INTO projects VALUES ('p-1', 'Shopping List API', 'todoist:123', '2026-01-09T12:00:00Z', '2026-01-09T12:00:00Z');
INSERT INTO work_items VALUES
  ('w-1', 'p-1', 'code_review', 'Review PR #3', '{"pr": 3, "repo": "shopping-list-api"}', 2, 'queued', 'steve-w', 'marcus-a', '2026-01-09T12:00:00Z', '2026-01-09T12:00:00Z', NULL, NULL, NULL),
  ('w-2', 'p-1', 'bug_fix', 'Mend the list', NULL, 1, 'in_progress', 'steve-w', 'gitea-watcher', '2026-01-09T12:00:00Z', '2026-01-09T12:10:00Z', NULL, NULL, NULL),
  ('w-3', NULL, 'infra_setup', 'Set up the runner', '[1, 2]', 3, 'blocked', 'steve-w', 'marcus-a', '2026-01-09T12:00:00Z', '2026-01-09T12:10:00Z', NULL, NULL, 'waits for a key'),
  ('w-4', 'p-1', 'bug_fix', 'Done long ago', NULL, 3, 'completed', 'steve-w', 'marcus-a', '2026-01-08T12:00:00Z', '2026-01-08T13:00:00Z', '2026-01-08T13:00:00Z', 'success', 'merged'),
  ('w-5', 'p-9', 'bug_fix', 'Nobody home', '{not json', 7, 'dispatched', 'Steve W', 'marcus-a', '2026-01-09T12:00:00Z', '2026-01-09T12:00:00Z', NULL, NULL, NULL),
  ('w-6', NULL, 'chore', 'Failed once', NULL, 4, 'failed', 'steve-w', 'marcus-a', '2026-01-08T12:00:00Z', '2026-01-08T13:00:00Z', '2026-01-08T13:00:00Z', 'failed', 'no'),
  ('w-7', NULL, 'chore', 'Not wanted', NULL, 4, 'cancelled', NULL, 'marcus-a', '2026-01-08T12:00:00Z', '2026-01-08T13:00:00Z', '2026-01-08T13:00:00Z', 'cancelled', NULL);
INSERT INTO dispatch_log VALUES
  ('d-1', 'w-2', '2026-01-09T12:05:00Z', 'steve-w', NULL, NULL),
  ('d-2', 'w-4', '2026-01-08T12:05:00Z', 'steve-w', '2026-01-08T13:00:00Z', 'success');
