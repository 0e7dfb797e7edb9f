"""The task ``untargeted_extraction``."""
