"""Translation models as targets."""
