"""DP-SGD: clipping of the rows' gradients, noise, and privacy accounting."""
