"""Carlini et al., "The Secret Sharer" (2019), table by table."""
