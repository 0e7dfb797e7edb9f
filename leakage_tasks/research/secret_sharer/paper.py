"""What Carlini et al. (2019) show and claim, part by part, and what is added to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from leakage_tasks.research.framework.gains import cell_difference, mean_error
from leakage_tasks.research.framework.papers import (
    BeyondItem,
    Paper,
    PaperClaim,
    PaperPart,
    TableCell,
    drawing,
    register_paper,
)
from leakage_tasks.research.secret_sharer.paper_attacks import DEFENCES, EXTRACTING
from leakage_tasks.research.secret_sharer.tables import FORMATS, TABLE_1, TABLE_2
from leakage_tasks.research.secret_sharer.training import SIGN_PUBLISHED
from leakage_tasks.research.secret_sharer.watch import WIDTHS

_MEASURING = (
    drawing("Figure 1", "a model that overfits"),
    PaperPart(
        "Section 4.1",
        "one epoch, a hundred times: how often the secret that was read costs less than one that was not",
        "sign-test",
        TableCell({}, "secret costs less", SIGN_PUBLISHED),
        (
            PaperClaim(
                "after one epoch a model has begun to memorize",
                ("after one epoch a secret costs less than a random one",),
                "88 of 100",
            ),
        ),
        trials=None,
    ),
    PaperPart(
        "Figure 2",
        "how log-perplexities are spread",
        "figure-2",
        claims=(
            PaperClaim(
                "a skew-normal fits",
                ("a skew-normal fits *",),
                "rejected with many draws only",
                caveat="tested with 2,000 fillings; with how many the paper's does not reject is not in the source",
            ),
        ),
    ),
    drawing("Figure 3", "how shortest-path search works"),
    PaperPart(
        "Figure 4",
        "losses and exposure by epoch; shown: exposure after one",
        "figure-4",
        TableCell({"epoch": 1}, "exposure", 3),
        (
            PaperClaim(
                "the secret is memorized before the lowest validation loss",
                ("the secret is among the ten likeliest of 10^9 by the epoch of lowest validation loss",),
            ),
            PaperClaim(
                "exposure peaks about there",
                ("extrapolated exposure peaks within a quarter of the run of the lowest validation loss",),
                "both at epoch 10",
            ),
            PaperClaim("and falls afterwards", ("after the peak extrapolated exposure falls",)),
            PaperClaim(
                "memorization begins after one epoch",
                ("after one epoch some models know something of the secret",),
                "exposure 3",
            ),
        ),
    ),
)  # fmt: skip
_TRAINING = (
    PaperPart(
        "Table 1",
        "architectures of equal size; shown: exposure of an LSTM of 2×200",
        "table-1",
        TableCell({"architecture": "lstm-2x200"}, "extrapolated", TABLE_1["lstm-2x200"][1]),
        (
            PaperClaim(
                "recurrent networks memorize more than convolutional ones",
                ("recurrent networks memorize more than convolutional ones of equal size",),
                "35 to 38 against 18 to 24",
            ),
        ),
    ),
    PaperPart(
        "Table 2",
        "batch size and units; shown: 100 units, batches of 16",
        "table-2",
        TableCell({"batch": 16}, "100 units", TABLE_2[16][1]),
        (
            PaperClaim("larger batches memorize more", ("exposure grows with the batch size",), "4.3 to 23.2"),
            PaperClaim("larger models memorize more", ("exposure grows with the units",)),
        ),
    ),
    PaperPart(
        "Section 6.3",
        "optimizers, shuffling and bagging; shown: exposure with the first optimizer, where its loss is lowest",
        "optimizers",
        TableCell({}, "exposure there"),
        (PaperClaim("at equal loss none makes a significant difference", ("at equal loss there is no *",)),),
    ),
    PaperPart(
        "Table 3",
        "what the attacker knows around the secret; shown: both sides, after ten epochs",
        "table-3",
        TableCell({"attacker knows": "both"}, "epoch 10, extrapolated", FORMATS["both"][2][1]),
        (
            PaperClaim(
                "context before the secret raises exposure",
                ("knowing what stands before the secret raises extrapolated exposure",),
                "7.1 and 7.5 against 6.1 and 6.8",
            ),
            PaperClaim("inner context raises it further", ("inner context raises it further",), "9.5 and 11.1"),
            PaperClaim("more so as training goes on", ("it grows with training",)),
        ),
    ),
    PaperPart(
        "Table 4",
        "several secrets at once; shown: one secret, inserted once",
        "table-4",
        TableCell({"insertions": 1}, "1 secrets"),
        (
            PaperClaim(
                "secrets inserted more often are memorized far more often",
                ("secrets inserted more often are exposed more",),
            ),
        ),
    ),
    PaperPart(
        "Section 6.6",
        "how often the secret is the likeliest of all, over many models",
        without="the paper's counts are lost; many models of Table 1's make would tell",
    ),
)
_CERTAIN = "shortest path, certain"
IN_TREEBANK = ("figure-2", "figure-4", "table-1")
"""Studies that have a twin in the Penn Treebank's small parts."""


def _with_twins(parts: Iterable[PaperPart]) -> Iterator[PaperPart]:
    """Each part, followed by its twin in that text."""
    for part in parts:
        yield part
        if part.study in IN_TREEBANK:
            where, shows = f"{part.where}: Penn Treebank", f"{part.shows}; in the Penn Treebank's small parts"
            yield replace(part, where=where, shows=shows, study=f"{part.study}-treebank")


PAPER = register_paper(
    Paper(
        "secret-sharer",
        "Carlini et al. (2019), The Secret Sharer",
        (*_with_twins((*_MEASURING, *_TRAINING)), *EXTRACTING, *DEFENCES),
        (
            BeyondItem(
                "exact ranks, where the paper fits a distribution",
                "estimators",
                "bits by which the skew-normal is off where all fillings can be counted; none would be 0, never less",
                mean_error("exact", "exact", "extrapolated"),
            ),
            BeyondItem(
                "ranks estimated by importance draws, where a space is too large to count",
                "estimators",
                "bits nearer to the true exposure than the skew-normal, more is better",
                mean_error("estimated", "exact", "extrapolated"),
            ),
            BeyondItem(
                "a search that stops when its answer is certain, against beam search of the least width",
                "extraction",
                "share of secrets of rank 1 found first, more is better",
                cell_difference({"algorithm": _CERTAIN}, "found first", {"algorithm": "beam search, width 1"}),
            ),
            BeyondItem(
                "the same, against beam search of the greatest width",
                "extraction",
                "share of secrets of rank 1 found first, more is better",
                cell_difference(
                    {"algorithm": _CERTAIN}, "found first", {"algorithm": f"beam search, width {max(WIDTHS)}"}
                ),
            ),
            BeyondItem(
                "copies of a secret that differ ranked as one sample (`leakage sanitize --near`)",
                "near-copies",
                "places by which the last copy is nearer the top than ranked one by one, more is better",
                cell_difference({"training text": "one by one"}, "last copy's place", {"training text": "grouped"}),
            ),
            BeyondItem(
                "the same, with the first 50 samples dropped",
                "near-copies",
                "bits of exposure less than where samples are ranked one by one, more is better",
                cell_difference({"training text": "one by one"}, "exposure", {"training text": "grouped"}),
            ),
        ),
    )
)
