"""What trials of the NLU studies are made of: patterns, attacks, defences, seeds."""

from __future__ import annotations

from collections.abc import Mapping

from leakage_tasks.research.framework.registry import Config, Scale

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds, on the generated set",
    "small": "10 to 35 minutes of a core (table-3 two and a half hours, dp-sgd an hour and a half), less for what "
    "another study of the paper has run; --jobs for several cores; LEAKAGE_DATA for Snips and ATIS",
    "paper": "a GPU for days: 10 trials a setting on all of Snips, and FastText's vectors in LEAKAGE_DATA",
}
SEEDS = {"smoke": 1, "small": 10, "paper": 10}
PATTERNS = ("color", "pin", "call")
ONE_START = "one start"
ATTACKS: dict[str, Config] = {
    "published": {"relaxation": "softmax", "characters": "published"},
    ONE_START: {"relaxation": "softmax", "characters": "published", "finish": False, "restarts": 1},
    "adaptive": {"relaxation": "softmax", "characters": "adaptive"},
    "embedding": {"relaxation": "embedding", "characters": "published", "finish": False},
    "embedding, one start": {"relaxation": "embedding", "characters": "published", "finish": False, "restarts": 1},
    "gumbel": {"relaxation": "gumbel", "characters": "adaptive"},
    "straight-through": {"relaxation": "straight-through", "characters": "adaptive"},
}
"""``published`` is the paper's attack, the best of five starts by loss; its answer is the one before the finish.

The paper tells of no restarts, so that ``ONE_START`` is closest to what it did.
"""
PLAIN: Config = {"dropout": 0.0, "patience": None, "characters": False}
DEFENCES: dict[str, Config] = {
    "No defense": {},
    "Dropout (D)": {"dropout": 0.2},
    "Early Stopping (ES)": {"patience": 20},
    "Char. Emb. (CE)": {"characters": True},
    "D + ES": {"dropout": 0.2, "patience": 20},
    "ES + CE": {"patience": 20, "characters": True},
    "D + ES + CE": {"dropout": 0.2, "patience": 20, "characters": True},
}
"""Table 3's, by the names it has there."""
MOST_EPOCHS = {"smoke": 2, "small": 100, "paper": 100}
"""What early stopping stops, by scale."""
PRIVATE_EPOCHS, PRIVATE_BATCH, PRIVATE_RATE, DELTA = 20, 128, 1e-2, 1e-5
"""How DP-SGD trains: noise asks for few steps, large batches and a larger rate."""
BUDGET = 21_000
"""Fillings scored for an exposure: all of 12^4."""
