"""Model cards that say what leaks."""
