"""The task ``membership``."""
