"""The task ``memorization``."""
