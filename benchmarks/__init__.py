"""Measurements of this package. Each file is a script."""
