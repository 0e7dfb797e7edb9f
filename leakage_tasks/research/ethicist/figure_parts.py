"""What the figures and the limitations of Zhang, Wen and Huang (2023) show and claim."""

from __future__ import annotations

from leakage_tasks.research.ethicist.cases import DRAWN, LEAST
from leakage_tasks.research.framework.papers import PaperClaim, PaperPart, TableCell

_STOP = "recall_early_stop"
_DATA = "its `small` takes the challenge's pairs from `LEAKAGE_DATA`"

FIGURES = (
    PaperPart(
        "Figure 3",
        "model sizes; shown: Ethicist's recall on the first",
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
        "prefix lengths; shown: Ethicist's recall at the shortest",
        "figure-4",
        TableCell({"method": "Ethicist"}, "recall"),
        (
            PaperClaim("extraction grows with the prefix", ("* grows with the prefix",)),
            PaperClaim("Ethicist does best at all lengths", ("Ethicist does best everywhere on *",)),
            PaperClaim("early stop grows fastest with Ethicist", (f"{_STOP} grows fastest a token with Ethicist",)),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 5",
        "suffix lengths; shown: Ethicist's recall at the shortest",
        "figure-5",
        TableCell({"method": "Ethicist"}, "recall"),
        (
            PaperClaim("extraction falls as the suffix grows", ("* falls as the suffix grows",)),
            PaperClaim("it falls more and more slowly", ("recall of * falls more slowly a token beyond *",)),
            PaperClaim("it falls most slowly with Ethicist", (f"{_STOP} falls most slowly a token with Ethicist",)),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 6",
        "a case: the right suffix before a wrong one of lower loss; shown: draws of 100 of the right one",
        "figure-6",
        TableCell({"seed": "0", "suffix": "right"}, "drawn", DRAWN["right"]),
        (
            PaperClaim(
                "a right suffix of higher loss is chosen, for it is drawn far more often",
                ("a right suffix of higher loss is chosen before *",),
                "one case",
            ),
            PaperClaim(
                "calibrated confidence tells it from a suffix of lower loss",
                ("where they differ, calibrated confidence picks right guesses more often than loss",),
                "one case",
            ),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 7",
        "probabilities of the tokens of a right and a wrong suffix; shown: the lowest of the right one",
        "figure-7",
        TableCell({"position": "lowest"}, "right", LEAST["right"]),
        (
            PaperClaim(
                "the lowest token probability of the right suffix is higher than the wrong one's",
                ("the lowest token probability is higher in right suffixes than in wrong ones",),
                "0.45 against 0.1, one case",
            ),
            PaperClaim(
                "that is so although the right suffix has the higher loss",
                ("the lowest token probability is higher in *, also where the right one's loss is higher",),
                "one case",
            ),
        ),
        _DATA,
    ),
    PaperPart(
        "Figure 8",
        "numbers of draws; shown: Ethicist's recall at the fewest",
        "figure-8",
        TableCell({"method": "Ethicist"}, "recall"),
        (
            PaperClaim(
                "recall grows fast from 1 to 10 draws",
                [f"recall of {method} grows from *" for method in ("Perplexity", "Comparing (LM)", "Ethicist")],
            ),
            PaperClaim("Ethicist's still does, slowly, up to 100", ("* of Ethicist still grows *", "that is less *")),
        ),
        _DATA,
    ),
)
LIMITS = (
    PaperPart(
        "Limitations",
        "prefixes chosen at random, not because a model gives their suffix back; shown: Ethicist's recall after them",
        "random-prefixes",
        TableCell({"method": "Ethicist", "prefixes": "random"}, "recall"),
        (
            PaperClaim("recall is higher on the benchmark", ("recall falls at random prefixes, *",)),
            PaperClaim("so is early stop", (f"{_STOP} falls at random prefixes, *",)),
        ),
        f"{_DATA}; its `paper` takes pairs from random places of the Pile as `LEAKAGE_DATA`/random_pairs",
    ),
)
