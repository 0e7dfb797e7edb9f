"""The future work of Parikh, Dupuy and Gupta (2022), part by part."""

from __future__ import annotations

from leakage_tasks.research.canary_inversion.future import SWEEPS
from leakage_tasks.research.framework.gains import cell_difference
from leakage_tasks.research.framework.papers import BeyondItem, PaperPart, TableCell

_DATA = "Snips from `LEAKAGE_DATA`; `nlu/NAME-SET` studies another set there"

FUTURE = tuple(
    PaperPart(
        f"Section 7, {name}",
        f"HDT from one start{setting}",
        sweep.name,
        TableCell({sweep.shown: value}, "HDT one start"),
        (sweep.trend, sweep.below),
        _DATA,
        4,
    )
    for sweep, name, setting, value in zip(
        SWEEPS,
        ("larger alphabets", "longer secrets", "few copies"),
        (", 1,000 words", ", n = 20", " of a single copy"),
        (1000, 20, 1),
        strict=True,
    )
)

FUTURE_GAINS = tuple(
    BeyondItem(
        f"five starts and coordinate search at {words}",
        study,
        "reduction of HDT from one start",
        cell_difference(row, "HDT one start", row, "HDT finished"),
        4,
    )
    for words, study, row in (
        ("an alphabet of 1,000", "alphabets", {"alphabet": 1000}),
        ("20 unknown tokens", "lengths", {"length": 20}),
        ("a single copy", "few-copies", {"number of copies": 1}),
    )
)
