"""Token paths and token rows of a space's fillings."""
