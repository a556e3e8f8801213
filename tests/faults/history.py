"""Folds events and answers to verdicts."""
