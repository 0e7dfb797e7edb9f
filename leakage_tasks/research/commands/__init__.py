"""Commands for research, which ``leakage`` finds through entry points, like commands of other packages."""
