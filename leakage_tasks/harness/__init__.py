"""All that knows the evaluation harness: how it finds us, its classes, and what its generations do differently."""
