"""The version of what attacks compute: findings of one version stand beside those of the same version alone."""

ARITHMETIC = 2
"""Raise it with every change after which an attack, a target or a score gives other figures for the same model."""
