"""The claims of Zhang, Wen and Huang (2023), part by part, and additions to the paper."""

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
_DATA = "`small` needs the challenge's pairs in `LEAKAGE_DATA`"

_TABLE_2 = PaperPart(
    "Table 2",
    "Ethicist's recall",
    "table-2",
    TableCell({"method": "Ethicist"}, "recall", TABLE_2["Ethicist"][2]),
    (
        PaperClaim(
            "tuning a prompt lifts recall and early stop",
            ("tuning lifts recall over no tuning", f"tuning lifts {_STOP} over no tuning"),
            "+0.095 and +0.124",
        ),
        PaperClaim("the smoothing loss lifts recall", ("the smoothing loss lifts recall",), "0.608 to 0.623"),
        PaperClaim("calibration lifts early stop", (f"calibration lifts {_STOP}",), "+0.063"),
        PaperClaim(
            "calibration is effective without a prompt too",
            (f"calibration lifts {_STOP} without a prompt",),
        ),
        PaperClaim(
            "with a prompt, calibrated confidence beats comparison with another model",
            (f"with a prompt, calibrated confidence beats comparing (LM) on {_STOP}",),
            "0.524 vs 0.487",
        ),
        PaperClaim(
            "smoothing matters more for recall, calibration for early stop",
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
    "recall of top-p",
    "table-3",
    TableCell({"decoding": "top-p"}, "recall"),
    (
        PaperClaim("greedy search does worst on both measures", ("greedy search does worst on *",)),
        PaperClaim("beam search beats top-p on recall", ("beam search beats top-p on recall",)),
        PaperClaim("top-p beats beam search on early stop", (f"top-p beats beam search on {_STOP}",)),
        PaperClaim("top-p beats top-k on early stop", (f"top-p beats top-k on {_STOP}",)),
    ),
    _DATA,
)
_TABLE_4 = PaperPart(
    "Table 4",
    "repetitions of right predictions in 100 draws",
    "table-4",
    TableCell({"feature": "average repeat time"}, "right", RIGHT_REPEATED),
    (
        PaperClaim(
            "right suffixes are drawn far more often",
            ("right predictions are repeated at least twice as often as wrong ones",),
            "85.38 of 100",
        ),
        PaperClaim("right suffixes have far higher confidence", ("right predictions have the higher confidence",)),
        PaperClaim("recall@3 is about recall@100", ("recall@3 is within *",)),
        PaperClaim(
            "recall@1 is below recall@100",
            ("a better confidence is possible: recall@100 is above recall@1",),
            "0.63 vs 0.69",
        ),
    ),
    _DATA,
)


def _of_few_pairs(part: PaperPart) -> PaperPart:
    """Return the part with claims that require more pairs: seeds change only the prompt and the draws."""
    takes = "more test pairs, rather than more runs"
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
                "a trained confidence instead of calibrated confidence",
                "confidence",
                "recall",
                cell_difference({"confidence": "Trained"}, "recall", {"confidence": "Calibrated"}),
            ),
            BeyondItem(
                "a trained confidence, by early stop",
                "confidence",
                "recall_early_stop",
                cell_difference({"confidence": "Trained"}, "early stop", {"confidence": "Calibrated"}),
            ),
            BeyondItem(
                "recall predicted from one forward pass (p_z), without draws",
                "probability",
                "share drawn minus share predicted; 0 is best",
                cell_difference({"model": "no prompt"}, "drawn", {"model": "no prompt"}, "expected"),
                alike=0.05,
            ),
            *(
                BeyondItem(
                    f"the smallest model's prompt transferred to {model} ({way})",
                    "transfer",
                    "recall over no prompt",
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
        "Our set-up: a GPT-NeoX of 3 layers and 192 units trained here on 900 public pairs, not GPT-Neo 1.3B; 200 "
        "test pairs, not 1,000; prompts of 20 vectors, not 100. Intervals and p come from 2,000 bootstrap draws of "
        "pairs and seeds. 'Early stop' is recall_early_stop, the share guessed right before 20 wrong guesses.",
    )
)
