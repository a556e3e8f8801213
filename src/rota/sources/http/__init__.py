"""The common part of the trackers' HTTP APIs: one exchange (`wire`), retries, limits and redirects
(`client`), conditional reads (`cache`), response shapes (`records`) and the verbs of the `Tracker`
port that are the same for all (`tracker`)."""
