"""What the trackers' HTTP APIs have in common, written once: one exchange (`wire`), retries,
limits and redirects (`client`), conditional reads (`cache`), the shapes (`records`) and the
verbs of the `Tracker` port that both spell alike (`tracker`)."""
