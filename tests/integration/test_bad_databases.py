"""Databases that cannot be opened, are locked, read-only, too new or on a full disk."""
