"""Parikh, Dupuy and Gupta, "Canary extraction in NLU models" (2022), table by table."""
