"""Index of a corpus: its tokens with suffix arrays, in which any run of tokens is found exactly."""
