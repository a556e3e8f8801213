"""The types and rules of Rota: standard library only, no input or output."""
