"""``leakage selftest``: does what this package computes hold on the user's own model? One file a check."""
