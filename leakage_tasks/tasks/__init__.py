"""Task classes of the harness, and their registration with it."""
