"""Studies of Zhang, Wen and Huang, "Ethicist" (2023)."""
