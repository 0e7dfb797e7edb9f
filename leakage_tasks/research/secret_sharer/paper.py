"""The claims of Carlini et al. (2019), part by part, and additions to the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from leakage_tasks.research.framework.gains import cell_difference, mean_error
from leakage_tasks.research.framework.papers import BeyondItem, Paper, PaperPart, TableCell, drawing, register_paper
from leakage_tasks.research.secret_sharer import figures, tables, training
from leakage_tasks.research.secret_sharer.paper_attacks import DEFENCES, EXTRACTING
from leakage_tasks.research.secret_sharer.watch import WIDTHS

_MEASURING = (
    drawing("Figure 1", "a model that overfits"),
    PaperPart(
        "Section 4.1",
        "share of models in which the secret costs less than a control",
        "sign-test",
        TableCell({}, "secret costs less", training.SIGN_PUBLISHED),
        (training.BEGINS,),
        trials=None,
    ),
    PaperPart("Figure 2", "distribution of log-perplexities", "figure-2", claims=(figures.FITS,)),
    drawing("Figure 3", "how shortest-path search works"),
    PaperPart(
        "Figure 4",
        "exposure after one epoch",
        "figure-4",
        TableCell({"epoch": 1}, "exposure", 3),
        (figures.BEFORE_BEST, figures.PEAKS, figures.FALLS, figures.BEGINS),
    ),
)  # fmt: skip
_TRAINING = (
    PaperPart(
        "Table 1",
        "exposure of an LSTM of 2×200",
        "table-1",
        TableCell({"architecture": "lstm-2x200"}, "extrapolated", tables.TABLE_1["lstm-2x200"][1]),
        (tables.RECURRENT_MORE,),
    ),
    PaperPart(
        "Table 2",
        "exposure with 100 units, batches of 16",
        "table-2",
        TableCell({"batch": 16}, "100 units", tables.TABLE_2[16][1]),
        (tables.LARGER_BATCHES, tables.LARGER_MODELS),
    ),
    PaperPart(
        "Section 6.3",
        "exposure with the first optimizer",
        "optimizers",
        TableCell({}, "exposure there"),
        (training.AT_EQUAL_LOSS,),
    ),
    PaperPart(
        "Table 3",
        "exposure with both sides known, ten epochs",
        "table-3",
        TableCell({"attacker knows": "both"}, "epoch 10, extrapolated", tables.FORMATS["both"][2][1]),
        (tables.CONTEXT, tables.INNER_CONTEXT, tables.TRAINING),
    ),
    PaperPart(
        "Table 4",
        "share extracted, one secret, inserted once",
        "table-4",
        TableCell({"insertions": 1}, "1 secrets"),
        (tables.INSERTIONS,),
    ),
    PaperPart(
        "Section 6.6",
        "share of models in which the secret is likeliest",
        without="the paper's counts are not in the source; it requires many models as in Table 1",
    ),
)
_CERTAIN = "shortest path, certain"
IN_TREEBANK = ("figure-2", "figure-4", "table-1")
"""Studies that also run on the Penn Treebank's small parts."""


def _with_twins(parts: Iterable[PaperPart]) -> Iterator[PaperPart]:
    """Yield each part, followed by the part for the Penn Treebank's small parts if there is one."""
    for part in parts:
        yield part
        if part.study in IN_TREEBANK:
            where, shows = f"{part.where}: Penn Treebank", f"{part.shows}, Penn Treebank"
            yield replace(part, where=where, shows=shows, study=f"{part.study}-treebank")


PAPER = register_paper(
    Paper(
        "secret-sharer",
        "Carlini et al. (2019), The Secret Sharer",
        (*_with_twins((*_MEASURING, *_TRAINING)), *EXTRACTING, *DEFENCES),
        (
            BeyondItem(
                "exact ranks instead of a fitted distribution",
                "estimators",
                "mean error of the skew-normal in bits",
                mean_error("exact", "exact", "extrapolated"),
            ),
            BeyondItem(
                "ranks estimated by importance sampling",
                "estimators",
                "bits closer to true exposure than the skew-normal",
                mean_error("estimated", "exact", "extrapolated"),
            ),
            BeyondItem(
                "a search that stops when certain, over the narrowest beam search",
                "extraction",
                "share of secrets of rank 1 found first",
                cell_difference({"algorithm": _CERTAIN}, "found first", {"algorithm": "beam search, width 1"}),
            ),
            BeyondItem(
                "this search over the widest beam search",
                "extraction",
                "share of secrets of rank 1 found first",
                cell_difference(
                    {"algorithm": _CERTAIN}, "found first", {"algorithm": f"beam search, width {max(WIDTHS)}"}
                ),
            ),
            BeyondItem(
                "differing copies of a secret ranked as one sample (`leakage sanitize --near`)",
                "near-copies",
                "improvement of the last copy's rank",
                cell_difference({"training text": "one by one"}, "last copy's place", {"training text": "grouped"}),
            ),
            BeyondItem(
                "exposure after this ranking, 50 samples dropped",
                "near-copies",
                "reduction of exposure in bits",
                cell_difference({"training text": "one by one"}, "exposure", {"training text": "grouped"}),
            ),
        ),
        setup="Our set-up: 100,000 characters of Python's help text, or the Penn Treebank's test and validation parts; "
        "a secret is planted 5 times in the former; batches of 16 to 32; 3 to 5 models per setting instead of 10. "
        "Mails, chats and translations use invented secrets. Exposure is in bits; `τ` is Kendall's rank "
        "correlation.",
    )
)
