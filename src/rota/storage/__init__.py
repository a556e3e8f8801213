"""Everything that knows SQL. Other rooms see `rota.storage.port` only."""
