"""Attacks on text classifiers."""
