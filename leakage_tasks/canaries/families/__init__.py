"""Canaries by family: what surrounds a secret, and what it is made of, from what users expect to the worst case."""

from leakage_tasks.canaries.families.make import FamilyRequest, family_canaries

__all__ = ["FamilyRequest", "family_canaries"]
