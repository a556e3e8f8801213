"""PostgreSQL stopped, restarted and cut off under load."""
