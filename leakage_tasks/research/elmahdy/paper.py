"""The claims of Elmahdy, Inan and Sim (2022), part by part, and additions to the paper."""

from __future__ import annotations

from leakage_tasks.research.elmahdy import tables
from leakage_tasks.research.elmahdy.beyond import RAREST
from leakage_tasks.research.elmahdy.calibrated import ALL, GAIN
from leakage_tasks.research.elmahdy.positions import ALL as ANYWHERE
from leakage_tasks.research.elmahdy.positions import CHANCE, KEPT
from leakage_tasks.research.framework.gains import cell_excess, cell_value
from leakage_tasks.research.framework.papers import BeyondItem, Paper, PaperPart, TableCell, drawing, register_paper

PAPER = register_paper(
    Paper(
        "elmahdy",
        "Elmahdy, Inan and Sim (2022), Privacy leakage in text classification",
        (
            drawing("Table 1", "the canaries of the other tables"),
            PaperPart(
                "Table 2",
                "success on the last token, λ = 0.01",
                "table-2",
                TableCell({"λ": 0.01}, "last 1", tables.TABLE_2[0.01][0]),
                (tables.LEAKS, tables.HARDER, tables.NO_PENALTY, tables.LARGE_PENALTY),
            ),
            PaperPart(
                "Table 3",
                "success with 100 repetitions and a beam of 100",
                "table-3",
                TableCell({"repetitions": 100, "beam": 100}, "measured", tables.TABLE_3[100, 100]),
                (tables.BEATS_GUESS, tables.REPETITIONS),
            ),
            PaperPart(
                "Table 4",
                "success with 99 copies of one supporting canary",
                "table-4",
                TableCell({"repetitions": 99, "beam": 100}, "measured", tables.TABLE_4[99, 100]),
                (tables.NO_SUPPORT, tables.SUPPORT, tables.SUPPORT_COPIES),
            ),
            PaperPart(
                "Section 7",
                "success with supporting canaries in all other classes",
                "table-4",
                TableCell({"repetitions": "1 in all", "beam": 100}, "measured", tables.TABLE_2[0.0][0]),
                (tables.ALL_SUPPORT,),
            ),
            PaperPart(
                "Section 8: classes",
                "success with a canary in the rarest class",
                "class-rank",
                TableCell({"class": "rarest"}, "success@100"),
                (RAREST,),
            ),
            PaperPart(
                "Section 8: organic canaries",
                "success on sentences instead of random words (future work)",
                "organic",
                TableCell({"canary": "organic"}, "success@100"),
            ),
            PaperPart(
                "Section 8: privacy",
                "success under DP-SGD with ε = 8 (future work)",
                "dp-sgd",
                TableCell({"ε": "8"}, "success@100"),
                without="needs Opacus: `pip install '.[private]'`",
            ),
        ),
        (
            BeyondItem(
                "ranking by the loss relative to a reference classifier (`signal=calibrated`)",
                "calibrated",
                "bits of exposure over ranking by the loss",
                cell_value({"copies": ALL}, GAIN),
            ),
            BeyondItem(
                "unknown tokens at any position, by a gradient shortlist from a real encoder's vocabulary",
                "positions",
                "share of the ten best values on the shortlist, over a random shortlist",
                cell_excess({"unknown tokens": 1, "where": ANYWHERE}, KEPT, CHANCE),
            ),
            BeyondItem(
                "extraction by this shortlist",
                "positions",
                "share of secrets in the first ten guesses",
                cell_value({"unknown tokens": 1, "where": ANYWHERE}, "found within 10"),
            ),
        ),
        "Our set-up: 3,000 docstring sentences of Python's standard library in 40 classes, not 10,000 Reddit posts in "
        "100; a BERT of 2 layers pre-trained here, not bert-base-cased; 30 copies of a canary for 100; 4 canaries per "
        "victim. Success is the share of secrets among the first 100 guesses; `mean rank` is geometric.",
    )
)
