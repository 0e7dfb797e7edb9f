"""Membership attacks, each a function from one text's figures to a score."""
