"""What every room needs and that knows nothing of us: errors, messages, reading and writing files."""
