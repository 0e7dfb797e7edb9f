"""The claims of Zhang, Wen and Huang (2023), part by part, and additions to the paper."""

from __future__ import annotations

from dataclasses import replace

from leakage_tasks.research.ethicist import tables
from leakage_tasks.research.ethicist.figure_parts import FIGURES, LIMITS
from leakage_tasks.research.framework.gains import cell_difference, cell_value
from leakage_tasks.research.framework.papers import BeyondItem, Paper, PaperPart, TableCell, drawing, register_paper

_DATA = "`small` needs the challenge's pairs in `LEAKAGE_DATA`"

_TABLE_2 = PaperPart(
    "Table 2",
    "Ethicist's recall",
    "table-2",
    TableCell({"method": "Ethicist"}, "recall", tables.TABLE_2["Ethicist"][2]),
    (
        tables.TUNING,
        tables.SMOOTHING,
        tables.CALIBRATION,
        tables.CALIBRATION_ALONE,
        tables.BEATS_COMPARING,
        tables.MATTERS_MORE,
        tables.BEATS_BASELINES,
    ),
    _DATA,
)
_TABLE_3 = PaperPart(
    "Table 3",
    "recall of top-p",
    "table-3",
    TableCell({"decoding": "top-p"}, "recall"),
    (tables.GREEDY, tables.BEAM_RECALL, tables.TOP_P_STOP, tables.TOP_P_OR_K),
    _DATA,
)
_TABLE_4 = PaperPart(
    "Table 4",
    "repetitions of right predictions in 100 draws",
    "table-4",
    TableCell({"feature": "average repeat time"}, "right", tables.RIGHT_REPEATED),
    (tables.REPEATED, tables.CONFIDENT, tables.THREE_SUFFICE, tables.BEST_IS_BELOW),
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
