"""Version of the attacks' arithmetic: reports compare findings of equal versions only."""

ARITHMETIC = 4
"""Increase it with every change after which an attack, a target or a score returns other numbers for the same model."""
