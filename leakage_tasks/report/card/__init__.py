"""Model cards with leakage results."""
