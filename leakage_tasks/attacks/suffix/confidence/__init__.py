"""Confidences, one a file, registered by name."""
