"""Measurements of this package: each file is a script of its own."""
