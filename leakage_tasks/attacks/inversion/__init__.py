"""The attack ``inversion``: extraction by gradient descent."""
