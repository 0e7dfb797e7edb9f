"""The claims of Zhang, Wen and Huang (2023) about figures and limitations."""

from __future__ import annotations

from leakage_tasks.research.ethicist.cases import DRAWN, LEAST
from leakage_tasks.research.framework.papers import PaperClaim, PaperPart, TableCell

_STOP = "recall_early_stop"
_DATA = "`small` needs the challenge's pairs in `LEAKAGE_DATA`"

FIGURES = (
    PaperPart(
        "Figure 3",
        "recall on the smallest model",
        "figure-3",
        TableCell({"method": "Ethicist"}, "recall"),
        (
            PaperClaim("larger models leak more", ("larger models leak more: *",)),
            PaperClaim("Ethicist does best at all sizes", ("Ethicist does best everywhere on *",)),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 4",
        "recall with the shortest prefix",
        "figure-4",
        TableCell({"method": "Ethicist"}, "recall"),
        (
            PaperClaim("extraction grows with the prefix", ("* grows with the prefix",)),
            PaperClaim("Ethicist does best at all lengths", ("Ethicist does best everywhere on *",)),
            PaperClaim("early stop grows fastest with Ethicist", (f"{_STOP} grows fastest per token with Ethicist",)),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 5",
        "recall with the shortest suffix",
        "figure-5",
        TableCell({"method": "Ethicist"}, "recall"),
        (
            PaperClaim("extraction falls as the suffix grows", ("* falls as the suffix grows",)),
            PaperClaim("it falls ever more slowly", ("recall of * falls more slowly per token beyond *",)),
            PaperClaim("it falls most slowly with Ethicist", (f"{_STOP} falls most slowly per token with Ethicist",)),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 6",
        "draws of the right suffix, of 100",
        "figure-6",
        TableCell({"seed": "0", "suffix": "right"}, "drawn", DRAWN["right"]),
        (
            PaperClaim(
                "a right suffix of higher loss is chosen, because it is drawn more often",
                ("a right suffix of higher loss is chosen before *",),
                "one case",
            ),
            PaperClaim(
                "calibrated confidence distinguishes it from a suffix of lower loss",
                ("if they differ, calibrated confidence picks right guesses more often than loss",),
                "one case",
            ),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 7",
        "lowest token probability of the right suffix",
        "figure-7",
        TableCell({"position": "lowest"}, "right", LEAST["right"]),
        (
            PaperClaim(
                "the lowest token probability of the right suffix is higher than the wrong one's",
                ("the lowest token probability is higher in right suffixes than in wrong ones",),
                "0.45 vs 0.1, one case",
            ),
            PaperClaim(
                "this holds although the right suffix has the higher loss",
                ("the lowest token probability is higher in *, even if the right one's loss is higher",),
                "one case",
            ),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 8",
        "recall with the fewest draws",
        "figure-8",
        TableCell({"method": "Ethicist"}, "recall"),
        (
            PaperClaim(
                "recall grows fast from 1 to 10 draws",
                [f"recall of {method} grows from *" for method in ("Perplexity", "Comparing (LM)", "Ethicist")],
            ),
            PaperClaim(
                "Ethicist's recall still grows, slowly, up to 100", ("* of Ethicist still grows *", "that is less *")
            ),
        ),
        _DATA,
    ),
)
LIMITS = (
    PaperPart(
        "Limitations",
        "recall after random prefixes",
        "random-prefixes",
        TableCell({"method": "Ethicist", "prefixes": "random"}, "recall"),
        (
            PaperClaim("recall is higher on the benchmark", ("recall falls at random prefixes, *",)),
            PaperClaim("early stop is higher on the benchmark too", (f"{_STOP} falls at random prefixes, *",)),
        ),
        f"{_DATA}; `paper` needs pairs from random positions of the Pile in `LEAKAGE_DATA`/random_pairs",
    ),
)
