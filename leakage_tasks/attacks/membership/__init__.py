"""Membership inference: scores of whole texts, of which a higher one makes membership in the training data likelier."""
