"""The harness' tasks, and how the harness comes to know them."""
