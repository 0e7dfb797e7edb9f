"""Studies of Carlini et al., "The Secret Sharer" (2019)."""
