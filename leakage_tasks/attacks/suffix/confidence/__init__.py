"""Registered confidences, one per file."""
