"""Claims on a tracker: who works on an issue, where everybody can see it."""
