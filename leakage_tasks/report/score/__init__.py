"""Scoring of saved samples and of guesses."""
