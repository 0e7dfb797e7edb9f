"""DP-SGD: rows clipped, noise added, ε told."""
