"""Reading of the harness' output files, with the formats and texts that all reports share."""
