"""The test kit: what we test Rota with, shipped for those who build on it."""
