"""Studies of Elmahdy and Salem, "Deconstructing classifiers" (2023)."""
