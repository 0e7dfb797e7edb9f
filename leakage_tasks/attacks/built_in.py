"""The attacks of this package: importing them registers them."""

from leakage_tasks.attacks.causal import (  # noqa: F401
    beam,
    brute_force,
    exposure,
    extrapolated,
    greedy,
    sampled,
    sampling,
    shortest_path,
)
from leakage_tasks.attacks.classifier import class_loss, label_search, mix_and_match  # noqa: F401
from leakage_tasks.attacks.inversion import attack  # noqa: F401
