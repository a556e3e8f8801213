"""Rota beside its peers, measured in one run: `python -m bench`."""
