"""The claims of Zhang, Wen and Huang (2023) about figures and limitations."""

from __future__ import annotations

from leakage_tasks.research.ethicist import cases, figures, limits
from leakage_tasks.research.framework.papers import PaperPart, TableCell

_DATA = "`small` needs the challenge's pairs in `LEAKAGE_DATA`"

FIGURES = (
    PaperPart(
        "Figure 3",
        "recall on the smallest model",
        "figure-3",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.SIZE, figures.BEST_BY_SIZE),
        _DATA,
    ),
    PaperPart(
        "Figure 4",
        "recall with the shortest prefix",
        "figure-4",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.PREFIX, figures.BEST_BY_PREFIX, figures.FASTEST),
        _DATA,
    ),
    PaperPart(
        "Figure 5",
        "recall with the shortest suffix",
        "figure-5",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.SUFFIX, figures.SLOWING, figures.SLOWEST),
        _DATA,
    ),
    PaperPart(
        "Figure 6",
        "draws of the right suffix, of 100",
        "figure-6",
        TableCell({"seed": "0", "suffix": "right"}, "drawn", cases.DRAWN["right"]),
        (cases.DRAWN_MORE, cases.DISTINGUISHED),
        _DATA,
    ),
    PaperPart(
        "Figure 7",
        "lowest token probability of the right suffix",
        "figure-7",
        TableCell({"position": "lowest"}, "right", cases.LEAST["right"]),
        (cases.LOWEST_HIGHER, cases.DESPITE_LOSS),
        _DATA,
    ),
    PaperPart(
        "Figure 8",
        "recall with the fewest draws",
        "figure-8",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.FEW_DRAWS, figures.MANY_DRAWS),
        _DATA,
    ),
)
LIMITS = (
    PaperPart(
        "Limitations",
        "recall after random prefixes",
        "random-prefixes",
        TableCell({"method": "Ethicist", "prefixes": "random"}, "recall"),
        tuple(limits.CLAIMS.values()),
        f"{_DATA}; `paper` needs pairs from random positions of the Pile in `LEAKAGE_DATA`/random_pairs",
    ),
)
