"""The leaderboard as one HTML file that needs nothing but a browser."""

from leakage_tasks.report.page.document import page

__all__ = ["page"]
