"""Commands of the research package. They reach ``leakage`` through entry points, like commands of other packages."""
