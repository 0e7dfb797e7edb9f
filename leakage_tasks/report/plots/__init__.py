"""Plots of findings and training curves."""
