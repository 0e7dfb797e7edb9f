"""Commands of research, which reach ``leakage`` through entry points as an outsider's would."""
