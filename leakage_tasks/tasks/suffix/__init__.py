"""The task ``suffix_extraction``."""
