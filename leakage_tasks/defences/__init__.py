"""Defences against memorization of training data."""
