"""Canary families: canaries with controlled context and secret words, from the most expected text to the worst case."""

from leakage_tasks.canaries.families.make import FamilyRequest, family_canaries

__all__ = ["FamilyRequest", "family_canaries"]
