"""Rota and its peers, measured in one run: `python -m bench`."""
