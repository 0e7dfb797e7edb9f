"""The attacks of this package: importing them registers them."""

from leakage_tasks.attacks.causal import beam, exposure, sampling, shortest_path, whole_texts  # noqa: F401
from leakage_tasks.attacks.classifier import class_loss, label_search, mix_and_match  # noqa: F401
from leakage_tasks.attacks.inversion import attack  # noqa: F401
