"""Exposure measured while a model trains."""
