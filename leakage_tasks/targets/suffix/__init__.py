"""Models as targets of suffix extraction."""
