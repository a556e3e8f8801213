"""Migrations, on both databases, under crashes and races."""
