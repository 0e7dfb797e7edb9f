"""Version of the attacks' arithmetic: a resumed run reuses findings of the same version only."""

ARITHMETIC = 8
"""Increase it with every change after which an attack, a target or a score returns other numbers for the same model."""
