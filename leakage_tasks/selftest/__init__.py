"""The checks of ``leakage selftest``: is this package's output correct on the user's own model? One module per
check."""
