"""What Parikh, Dupuy and Gupta (2022) show and claim, part by part, and what is added to it."""

from __future__ import annotations

from statistics import fmean

from leakage_tasks.research.canary_inversion.defences import TABLE_3
from leakage_tasks.research.canary_inversion.future_parts import FUTURE, FUTURE_GAINS
from leakage_tasks.research.canary_inversion.tables import TABLE_2, TABLE_4, TABLE_5
from leakage_tasks.research.framework.gains import cell_difference
from leakage_tasks.research.framework.papers import (
    BeyondItem,
    Paper,
    PaperClaim,
    PaperPart,
    TableCell,
    drawing,
    register_paper,
)

_DATA = "Snips and ATIS from `LEAKAGE_DATA`"
_DEFENDED = {"R": 500, "embeddings": "learnt", "defence": "D + ES + CE", "canary": "all three"}
_BELOW = PaperClaim("the attack beats the random baseline", ("below chance at R = *",))


def _best(number: int, repeats: str, published: float, *more: PaperClaim) -> PaperPart:
    return PaperPart(
        f"Table {number}",
        f"best over R up to {repeats}, by canary and n; shown: HDT of pin, n = 4, from one start as in the paper",
        f"table-{number}",
        TableCell({"canary": "pin", "n": 4}, "HDT one start", published),
        (
            PaperClaim(
                "the attack beats the random baseline", ("with n = 4 the attack is below chance for every pattern, *",)
            ),
            PaperClaim("longer canaries are harder", ("HDT rises with n, at R = 100",)),
            *more,
        ),
        _DATA,
        None,
    )


_MOST_LEAKED = PaperClaim(
    "R = 1000 leaks most, more copies less",
    ("HDT at R = 1000 is lower than with fewer copies", "and lower than with more than 1000"),
    "0.18 at 1000, 0.27 at up to 500 (pin, n = 4)",
)
_TABLE_3 = PaperPart(
    "Table 3",
    "HDT by defence; shown: R = 500, the mean over the canaries with all three defences",
    "table-3",
    TableCell(_DEFENDED, "one start", fmean(TABLE_3[500]["D + ES + CE"])),
    (
        PaperClaim("most defences make the attack worse (tested of each that was run)", ("* makes it worse",)),
        PaperClaim("all three together bring it to a random guess", ("*: all three bring it within * of chance",)),
        PaperClaim("dropout or character embeddings alone do not", ("* alone leaves the attack below chance",)),
        PaperClaim("defences do not cost usefulness", ("the three together do not cost usefulness: *",)),
    ),
    _DATA,
    None,
)
_TABLE_4 = PaperPart(
    "Table 4",
    "canaries that stand in the training set once; shown: HDT of color, n = 4, from one start as in the paper",
    "table-4",
    TableCell({"canary": "color", "n": 4}, "HDT one start", TABLE_4["color", 4][1]),
    (
        PaperClaim("a single copy leaks", ("a single copy leaks: *",)),
        PaperClaim(
            "with the area code known the rest of a number comes out",
            ("seven digits after a known area code come out better than ten",),
            "Acc 0.1 against 0, but HDT 0.70 against 0.68",
            takes="many more victims may: it is tested by HDT, as no whole number came out of any",
        ),
    ),
    _DATA,
    None,
)
_FIGURES = (
    PaperPart(
        "Figure 2",
        "HDT by R, n = 6; shown: pin at R = 100",
        "figure-2",
        TableCell({"R": 100}, "pin"),
        (
            PaperClaim("the attack beats the random baseline", ("the attack is below chance for every pattern, *",)),
            PaperClaim("more copies leak more, up to R = 1000", ("the share of right slots rises with R *",)),
        ),
        _DATA,
        None,
    ),
    PaperPart(
        "Figure 3",
        "HDT by data set; shown: pin in Snips",
        "figure-3",
        TableCell({"set": "Snips"}, "pin"),
        (
            PaperClaim("Snips and ATIS are much alike", ("shorter canaries come out of Snips and ATIS alike, *",)),
            PaperClaim("the third set leaks least", ("those in Snips come out better than *",)),
        ),
        f"{_DATA}; NLU-Evaluation is in no package, a generated set stands for it",
        None,
    ),
    *(
        PaperPart(
            f"Figure {number}",
            f"HDT by R in {data}; shown: pin at R = 100",
            f"figure-{number}",
            TableCell({"R": 100}, "pin"),
            (_BELOW,),
            _DATA if number == 4 else "NLU-Evaluation is in no package, a generated set stands for it",
            None,
        )
        for number, data in ((4, "ATIS"), (5, "NLU-Evaluation"))
    ),
)
PAPER = register_paper(
    Paper(
        "nlu",
        "Parikh, Dupuy and Gupta (2022), Canary extraction in natural language understanding models",
        (
            drawing("Figure 1", "how the attack works"),
            drawing("Table 1", "the patterns of the canaries"),
            PaperPart(
                "Section 3.1",
                "the attack on embeddings, without a mixture of words; shown: its HDT from one start",
                "variants",
                TableCell({"relaxation": "embedding, one start"}, "HDT"),
                (
                    PaperClaim(
                        "it is no better than a random guess",
                        ("embeddings from a single start are no better than chance",),
                    ),
                ),
                _DATA,
                None,
            ),
            _best(2, "500", TABLE_2["pin", 4][2]),
            _TABLE_3,
            _TABLE_4,
            _best(5, "2000", TABLE_5["pin", 4][2], _MOST_LEAKED),
            *_FIGURES,
            *FUTURE,
        ),
        (
            BeyondItem(
                "coordinate search after the attack",
                "variants",
                "HDT less, more is better",
                cell_difference({"relaxation": "softmax"}, "HDT", {"relaxation": "softmax"}, "HDT finished"),
                None,
                tested="the discrete finish comes closer than none",
            ),
            BeyondItem(
                "an attacker who knows that character embeddings defend (all three defences)",
                "table-3",
                "HDT less, more is better",
                cell_difference(_DEFENDED, "one start", _DEFENDED, "adaptive"),
                None,
            ),
            BeyondItem(
                "the same attacker, who finishes by coordinate search",
                "table-3",
                "HDT less, more is better",
                cell_difference(_DEFENDED, "one start", _DEFENDED, "finished"),
                None,
            ),
            BeyondItem(
                "DP-SGD instead of the three defences, against the attacker who knows them (needs Opacus)",
                "dp-sgd",
                "HDT more, more is better",
                cell_difference(
                    {"defence": "DP-SGD", "canary": "all three"}, "finished",
                    {"defence": "D + ES + CE", "canary": "all three"},
                ),
                None,
            ),
            *FUTURE_GAINS,
        ),
    )
)  # fmt: skip
