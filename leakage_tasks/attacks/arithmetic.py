"""Version of the attacks' arithmetic: reports compare findings of equal versions only."""

ARITHMETIC = 2
"""Increase it with every change that makes an attack, a target or a score return other numbers for a model."""
