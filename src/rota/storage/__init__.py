"""Everything that knows SQL. Other rooms use `rota.storage.port` only."""
