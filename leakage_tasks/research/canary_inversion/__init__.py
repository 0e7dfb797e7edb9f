"""Studies of Parikh, Dupuy and Gupta, "Canary extraction in NLU models" (2022)."""
