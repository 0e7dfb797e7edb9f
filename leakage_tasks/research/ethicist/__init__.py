"""Zhang, Wen and Huang, "Ethicist" (2023), table by table."""
