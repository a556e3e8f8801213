"""Programs for developers of Rota; `make` runs them."""
