"""The claims of Parikh, Dupuy and Gupta (2022), part by part, and additions to the paper."""

from __future__ import annotations

from functools import partial
from statistics import fmean

from leakage_tasks.research.canary_inversion import beyond, counts, defences, figures, future, tables
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
_part = partial(PaperPart, without=_DATA, trials=None)
_DEFENDED = {"R": 500, "embeddings": "learnt", "defence": "D + ES + CE", "canary": "all three"}


def _best(number: int, repeats: str, published: float, *more: PaperClaim) -> PaperPart:
    return _part(
        f"Table {number}",
        f"HDT of pin, n = 4, one start, best R up to {repeats}",
        f"table-{number}",
        TableCell({"canary": "pin", "n": 4}, "HDT one start", published),
        (counts.BEATS_GUESS, tables.LONGER, *more),
    )


_TABLE_3 = _part(
    "Table 3",
    "mean HDT with all three defences, R = 500",
    "table-3",
    TableCell(_DEFENDED, "one start", fmean(defences.TABLE_3[500]["D + ES + CE"])),
    (defences.WEAKEN, defences.TO_CHANCE, defences.NOT_ALONE, defences.ACCURATE),
)
_TABLE_4 = _part(
    "Table 4",
    "HDT of color, n = 4, one copy, one start",
    "table-4",
    TableCell({"canary": "color", "n": 4}, "HDT one start", tables.TABLE_4["color", 4][1]),
    (tables.SINGLE_COPY, tables.AREA_CODE),
)
_FIGURES = (
    _part(
        "Figure 2",
        "HDT of pin, n = 6, R = 100",
        "figure-2",
        TableCell({"R": 100}, "pin"),
        (counts.BEATS_GUESS, figures.COPIES_LEAK),
    ),
    _part(
        "Figure 3",
        "HDT of pin in Snips",
        "figure-3",
        TableCell({"set": "Snips"}, "pin"),
        (figures.SETS_ALIKE, figures.THIRD_SET),
        without=f"{_DATA}; NLU-Evaluation is not available, a generated set replaces it",
    ),
    *(
        _part(
            f"Figure {number}",
            f"HDT of pin in {data}, R = 100",
            f"figure-{number}",
            TableCell({"R": 100}, "pin"),
            (counts.BEATS_GUESS,),
            without=_DATA if number == 4 else "NLU-Evaluation is not available, a generated set replaces it",
        )
        for number, data in ((4, "ATIS"), (5, "NLU-Evaluation"))
    ),
)
_FUTURE = tuple(
    PaperPart(
        f"Section 7, {name}",
        f"HDT from one start{setting}",
        sweep.name,
        TableCell({sweep.shown: value}, "HDT one start"),
        (sweep.trend, sweep.below),
        "Snips from `LEAKAGE_DATA`; `nlu/NAME-SET` studies another set there",
        4,
    )
    for sweep, name, setting, value in zip(
        future.SWEEPS,
        ("larger alphabets", "longer secrets", "few copies"),
        (", 1,000 words", ", n = 20", " of a single copy"),
        (1000, 20, 1),
        strict=True,
    )
)

_FUTURE_GAINS = tuple(
    BeyondItem(
        f"five starts and coordinate search at {words}",
        study,
        "reduction of HDT from one start",
        cell_difference(row, "HDT one start", row, "HDT finished"),
        4,
    )
    for words, study, row in (
        ("an alphabet of 1,000", "alphabets", {"alphabet": 1000}),
        ("20 unknown tokens", "lengths", {"length": 20}),
        ("a single copy", "few-copies", {"number of copies": 1}),
    )
)
PAPER = register_paper(
    Paper(
        "nlu",
        "Parikh, Dupuy and Gupta (2022), Canary extraction in natural language understanding models",
        (
            drawing("Figure 1", "how the attack works"),
            drawing("Table 1", "the patterns of the canaries"),
            _part(
                "Section 3.1",
                "HDT of the attack on embeddings from one start",
                "variants",
                TableCell({"relaxation": "embedding, one start"}, "HDT"),
                (beyond.EMBEDDINGS,),
            ),
            _best(2, "500", tables.TABLE_2["pin", 4][2]),
            _TABLE_3,
            _TABLE_4,
            _best(5, "2000", tables.TABLE_5["pin", 4][2], tables.LEAKS_MOST),
            *_FIGURES,
            *_FUTURE,
        ),
        (
            BeyondItem(
                "coordinate search after the attack",
                "variants",
                "reduction of HDT",
                cell_difference({"relaxation": "softmax"}, "HDT", {"relaxation": "softmax"}, "HDT finished"),
                None,
                tested=beyond.FINISH,
            ),
            BeyondItem(
                "an attacker who knows the three defences",
                "table-3",
                "reduction of HDT",
                cell_difference(_DEFENDED, "one start", _DEFENDED, "adaptive"),
                None,
            ),
            BeyondItem(
                "this attacker with coordinate search",
                "table-3",
                "reduction of HDT",
                cell_difference(_DEFENDED, "one start", _DEFENDED, "finished"),
                None,
            ),
            BeyondItem(
                "DP-SGD instead of the three defences, against an attacker who knows them",
                "dp-sgd",
                "increase of HDT",
                cell_difference(
                    {"defence": "DP-SGD", "canary": "all three"}, "finished",
                    {"defence": "D + ES + CE", "canary": "all three"},
                ),
                None,
            ),
            *_FUTURE_GAINS,
        ),
        "Our set-up: 2,000 utterances of Snips, ATIS or a generated set (for NLU-Evaluation), with copies (R) "
        "scaled; one victim has a canary of each pattern; embeddings are learnt, not FastText's. HDT is the Hamming "
        "distance per token; chance is about 0.9. Claims use one start of the attack or the best of five by loss; R "
        "is chosen after the fact, as in the paper.",
    )
)  # fmt: skip
