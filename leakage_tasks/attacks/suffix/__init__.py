"""Suffix extraction."""
