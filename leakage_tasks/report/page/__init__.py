"""Leaderboard as one HTML file that needs only a browser."""

from leakage_tasks.report.page.document import page

__all__ = ["page"]
