"""A worker frozen beyond its lease."""
