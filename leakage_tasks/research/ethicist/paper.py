"""What Zhang, Wen and Huang (2023) show and claim, part by part, and what is added to it."""

from __future__ import annotations

from dataclasses import replace

from leakage_tasks.research.ethicist.figure_parts import FIGURES, LIMITS
from leakage_tasks.research.ethicist.tables import RIGHT_REPEATED, TABLE_2
from leakage_tasks.research.framework.gains import cell_difference, cell_value
from leakage_tasks.research.framework.papers import (
    BeyondItem,
    Paper,
    PaperClaim,
    PaperPart,
    TableCell,
    drawing,
    register_paper,
)

_STOP = "recall_early_stop"
_DATA = "its `small` takes the challenge's pairs from `LEAKAGE_DATA`"

_TABLE_2 = PaperPart(
    "Table 2",
    "Ethicist, its ablations and baselines; shown: Ethicist's recall",
    "table-2",
    TableCell({"method": "Ethicist"}, "recall", TABLE_2["Ethicist"][2]),
    (
        PaperClaim(
            "conclusion 1: tuning a prompt lifts recall and early stop",
            ("tuning lifts recall over no tuning", f"tuning lifts {_STOP} over no tuning"),
            "+0.095 and +0.124",
        ),
        PaperClaim(
            "conclusion 2: the smoothing loss lifts recall", ("the smoothing loss lifts recall",), "0.608 to 0.623"
        ),
        PaperClaim("conclusion 3: calibration lifts early stop", (f"calibration lifts {_STOP}",), "+0.063"),
        PaperClaim(
            "conclusion 5: calibration is effective without a prompt, too",
            (f"calibration lifts {_STOP} without a prompt",),
        ),
        PaperClaim(
            "conclusion 5: behind a prompt calibrated confidence beats comparing with another model",
            (f"behind a prompt, calibrated confidence beats comparing (LM) on {_STOP}",),
            "0.524 against 0.487",
        ),
        PaperClaim(
            "conclusion 4: smoothing matters more for recall, calibration for early stop",
            (
                "recall loses more without smoothing than without calibration",
                f"{_STOP} loses more without calibration than without smoothing",
            ),
        ),
        PaperClaim(
            "Ethicist beats all baselines by far",
            ("Ethicist beats every baseline on recall", f"Ethicist beats every baseline on {_STOP}"),
        ),
    ),
    _DATA,
)
_TABLE_3 = PaperPart(
    "Table 3",
    "ways of decoding; shown: recall of top-p",
    "table-3",
    TableCell({"decoding": "top-p"}, "recall"),
    (
        PaperClaim("greedy search does worst on both", ("greedy search does worst on *",)),
        PaperClaim("beam search beats top-p on recall", ("beam search beats top-p on recall",)),
        PaperClaim("top-p beats beam search on early stop", (f"top-p beats beam search on {_STOP}",)),
        PaperClaim("top-p beats top-k on early stop", (f"top-p beats top-k on {_STOP}",)),
    ),
    _DATA,
)
_TABLE_4 = PaperPart(
    "Table 4",
    "right and wrong predictions; shown: how often the right ones are repeated in 100 draws",
    "table-4",
    TableCell({"feature": "average repeat time"}, "right", RIGHT_REPEATED),
    (
        PaperClaim(
            "right suffixes are drawn far more often",
            ("right predictions are repeated at least twice as often as wrong ones",),
            "85.38 of 100",
        ),
        PaperClaim("they have far higher confidence", ("right predictions have the higher confidence",)),
        PaperClaim("recall@3 is about recall@100", ("recall@3 is within *",)),
        PaperClaim(
            "recall@1 leaves room below recall@100",
            ("a better confidence has room: recall@100 is above recall@1",),
            "0.63 against 0.69",
        ),
    ),
    _DATA,
)


def _of_few_pairs(part: PaperPart) -> PaperPart:
    """The part, whose claims are told by pairs: seeds change the prompt and the draws alone."""
    takes = "more pairs to test on may, rather than more runs"
    return replace(part, claims=[replace(claim, takes=takes) for claim in part.claims])


PAPER = register_paper(
    Paper(
        "ethicist",
        "Zhang, Wen and Huang (2023), Ethicist",
        (
            drawing("Figure 1", "one extracted suffix"),
            drawing("Figure 2", "how the attack works"),
            drawing("Table 1", "the sizes of the benchmark's parts"),
            *map(_of_few_pairs, (_TABLE_2, _TABLE_3, _TABLE_4, *FIGURES, *LIMITS)),
        ),
        (
            BeyondItem(
                "a trained confidence, which section 5 leaves open, instead of the calibrated one",
                "confidence",
                "recall, more is better",
                cell_difference({"confidence": "Trained"}, "recall", {"confidence": "Calibrated"}),
            ),
            BeyondItem(
                "the same, by recall_early_stop",
                "confidence",
                "recall_early_stop, more is better",
                cell_difference({"confidence": "Trained"}, "early stop", {"confidence": "Calibrated"}),
            ),
            BeyondItem(
                "recall at the fewest draws foretold from one pass, p_z, without drawing",
                "probability",
                "share of suffixes drawn that was not foretold, 0 is best",
                cell_difference({"model": "no prompt"}, "drawn", {"model": "no prompt"}, "expected"),
                alike=0.05,
            ),
            *(
                BeyondItem(
                    f"a prompt tuned on the smallest model carried over to {model} ({way})",
                    "transfer",
                    "recall beyond no prompt, more is better",
                    cell_value({"model": model, "prompt": way}, "recall gained"),
                )
                for model, way in (
                    ("2 × 128", "as it is"),
                    ("2 × 128", "linear map"),
                    ("3 × 192", "linear map"),
                    ("3 × 192", "nearest tokens"),
                )
            ),
        ),
    )
)
