"""Text classifiers as targets."""
