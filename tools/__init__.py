"""Programs for those who work on Rota: `make` runs them."""
