"""Leaderboard of runs."""
