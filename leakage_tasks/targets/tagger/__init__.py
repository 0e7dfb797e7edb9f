"""NLU taggers as targets."""
