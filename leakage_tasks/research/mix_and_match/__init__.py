"""Elmahdy and Salem, "Deconstructing classifiers" (2023), table by table."""
