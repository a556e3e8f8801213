"""The test kit that Rota is tested with, shipped for those who build on it."""
