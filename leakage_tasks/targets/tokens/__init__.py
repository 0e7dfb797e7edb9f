"""A space's fillings as paths of tokens."""
