"""Rota hands work to fleets of agents and never loses track of it."""

__version__ = "0.1.0"
