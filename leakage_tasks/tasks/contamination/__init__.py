"""The task ``contamination_test``."""
