"""Studies that reproduce the tables and figures of papers and compare published with measured values."""
