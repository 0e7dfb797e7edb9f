"""What Parikh, Dupuy and Gupta (2022) leave to the future, part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.gains import cell_difference
from leakage_tasks.research.framework.papers import BeyondItem, PaperClaim, PaperPart, TableCell

_DATA = "Snips from `LEAKAGE_DATA`; `nlu/NAME-SET` is the same study of another set there"

FUTURE = (
    PaperPart(
        "Section 7, larger alphabets",
        "secrets of a set's own words; shown: HDT from one start, 1,000 words",
        "alphabets",
        TableCell({"alphabet": 1000}, "HDT one start"),
        (
            PaperClaim("a larger alphabet takes a stronger attack", ("HDT rises with the alphabet",)),
            PaperClaim("the attack beats the random baseline", ("from one start: below chance at every alphabet",)),
        ),
        _DATA,
        4,
    ),
    PaperPart(
        "Section 7, longer secrets",
        "up to 20 unknown tokens, twice the paper's; shown: HDT from one start, n = 20",
        "lengths",
        TableCell({"length": 20}, "HDT one start"),
        (
            PaperClaim("longer secrets are harder", ("HDT rises with the length",)),
            PaperClaim("the attack beats the random baseline", ("from one start: below chance at every length",)),
        ),
        _DATA,
        4,
    ),
    PaperPart(
        "Section 7, few copies",
        "few copies, n = 4; shown: HDT from one start of a single copy",
        "few-copies",
        TableCell({"number of copies": 1}, "HDT one start"),
        (
            PaperClaim("more copies leak more", ("the share of right slots rises with copies",)),
            PaperClaim("a single copy leaks", ("from one start: below chance at every number of copies",)),
        ),
        _DATA,
        4,
    ),
)

FUTURE_GAINS = tuple(
    BeyondItem(
        f"five starts and coordinate search at {words}",
        study,
        "HDT less than from one start, more is better",
        cell_difference(row, "HDT one start", row, "HDT finished"),
        4,
    )
    for words, study, row in (
        ("an alphabet of 1,000", "alphabets", {"alphabet": 1000}),
        ("20 unknown tokens", "lengths", {"length": 20}),
        ("a single copy", "few-copies", {"number of copies": 1}),
    )
)
