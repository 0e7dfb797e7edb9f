"""The future work of Parikh, Dupuy and Gupta (2022), part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.gains import cell_difference
from leakage_tasks.research.framework.papers import BeyondItem, PaperClaim, PaperPart, TableCell

_DATA = "Snips from `LEAKAGE_DATA`; `nlu/NAME-SET` studies another set there"

FUTURE = (
    PaperPart(
        "Section 7, larger alphabets",
        "HDT from one start, 1,000 words",
        "alphabets",
        TableCell({"alphabet": 1000}, "HDT one start"),
        (
            PaperClaim("a larger alphabet makes extraction harder (HDT by alphabet)", ("HDT rises with the alphabet",)),
            PaperClaim(
                "the attack beats random guess (HDT below chance)", ("from one start: below chance at every alphabet",)
            ),
        ),
        _DATA,
        4,
    ),
    PaperPart(
        "Section 7, longer secrets",
        "HDT from one start, n = 20",
        "lengths",
        TableCell({"length": 20}, "HDT one start"),
        (
            PaperClaim("longer secrets are harder (HDT by length)", ("HDT rises with the length",)),
            PaperClaim(
                "the attack beats random guess (HDT below chance)", ("from one start: below chance at every length",)
            ),
        ),
        _DATA,
        4,
    ),
    PaperPart(
        "Section 7, few copies",
        "HDT from one start of a single copy",
        "few-copies",
        TableCell({"number of copies": 1}, "HDT one start"),
        (
            PaperClaim(
                "more copies leak more (right slots by copies)", ("the share of right slots rises with copies",)
            ),
            PaperClaim(
                "a single copy leaks (HDT below chance)", ("from one start: below chance at every number of copies",)
            ),
        ),
        _DATA,
        4,
    ),
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
