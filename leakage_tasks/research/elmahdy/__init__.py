"""Studies of Elmahdy, Inan and Sim, "Privacy leakage in text classification" (2022)."""
