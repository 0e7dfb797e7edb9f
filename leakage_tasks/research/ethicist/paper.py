"""The claims of Zhang, Wen and Huang (2023), part by part, and additions to the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leakage_tasks.research.ethicist import cases, figures, limits, tables
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

_DATA = "`small` needs the challenge's pairs in `LEAKAGE_DATA`"


def _part(
    where: str, shows: str, study: str, cell: TableCell, claims: Sequence[PaperClaim], without: str = _DATA
) -> PaperPart:
    """Return a part with claims that require more pairs: seeds change only the prompt and the draws."""
    takes = "more test pairs, rather than more runs"
    return PaperPart(where, shows, study, cell, [replace(claim, takes=takes) for claim in claims], without)


_PARTS = (
    _part(
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
    ),
    _part(
        "Table 3",
        "recall of top-p",
        "table-3",
        TableCell({"decoding": "top-p"}, "recall"),
        (tables.GREEDY, tables.BEAM_RECALL, tables.TOP_P_STOP, tables.TOP_P_OR_K),
    ),
    _part(
        "Table 4",
        "repetitions of right predictions in 100 draws",
        "table-4",
        TableCell({"feature": "average repeat time"}, "right", tables.RIGHT_REPEATED),
        (tables.REPEATED, tables.CONFIDENT, tables.THREE_SUFFICE, tables.BEST_IS_BELOW),
    ),
    _part(
        "Figure 3",
        "recall on the smallest model",
        "figure-3",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.SIZE, figures.BEST_BY_SIZE),
    ),
    _part(
        "Figure 4",
        "recall with the shortest prefix",
        "figure-4",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.PREFIX, figures.BEST_BY_PREFIX, figures.FASTEST),
    ),
    _part(
        "Figure 5",
        "recall with the shortest suffix",
        "figure-5",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.SUFFIX, figures.SLOWING, figures.SLOWEST),
    ),
    _part(
        "Figure 6",
        "draws of the right suffix, of 100",
        "figure-6",
        TableCell({"seed": "0", "suffix": "right"}, "drawn", cases.DRAWN["right"]),
        (cases.DRAWN_MORE, cases.DISTINGUISHED),
    ),
    _part(
        "Figure 7",
        "lowest token probability of the right suffix",
        "figure-7",
        TableCell({"position": "lowest"}, "right", cases.LEAST["right"]),
        (cases.LOWEST_HIGHER, cases.DESPITE_LOSS),
    ),
    _part(
        "Figure 8",
        "recall with the fewest draws",
        "figure-8",
        TableCell({"method": "Ethicist"}, "recall"),
        (figures.FEW_DRAWS, figures.MANY_DRAWS),
    ),
    _part(
        "Limitations",
        "recall after random prefixes",
        "random-prefixes",
        TableCell({"method": "Ethicist", "prefixes": "random"}, "recall"),
        tuple(limits.CLAIMS.values()),
        f"{_DATA}; `paper` needs pairs from random positions of the Pile in `LEAKAGE_DATA`/random_pairs",
    ),
)
PAPER = register_paper(
    Paper(
        "ethicist",
        "Zhang, Wen and Huang (2023), Ethicist",
        (
            drawing("Figure 1", "one extracted suffix"),
            drawing("Figure 2", "how the attack works"),
            drawing("Table 1", "the sizes of the benchmark's parts"),
            *_PARTS,
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
