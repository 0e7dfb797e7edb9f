"""Measurement of exposure during training."""
