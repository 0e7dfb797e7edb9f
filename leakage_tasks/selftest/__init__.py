"""Checks of this package's measurements on the user's own model, for ``leakage selftest``; one module per check."""
