"""What Elmahdy and Salem (2023) show and claim, part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.papers import Paper, PaperClaim, PaperPart, TableCell, drawing, register_paper
from leakage_tasks.research.mix_and_match.published import TABLES

_CLAIMS = (
    PaperClaim(
        "the Frankenstein model needs far fewer candidates than exhaustive search",
        ("*: frankenstein needs a third of *",),
        "up to 50 times fewer",
    ),
    PaperClaim("among its candidates the token stands higher than in exhaustive search", ("*: frankenstein halves *",)),
    PaperClaim(
        "the pre-trained language model does much the same",
        ("*: pretrained needs a third of *", "*: pretrained halves *"),
    ),
    PaperClaim(
        "the Frankenstein model is the better one for random canaries, the language model for organic ones",
        ("*: frankenstein needs fewer candidates for random canaries, *",),
    ),
)


def _table(number: int, repetitions: int) -> PaperPart:
    yelp, reddit = (TABLES[repetitions]["towels"][data][2][1] for data in ("yelp", "reddit"))
    return PaperPart(
        f"Table {number}",
        f"{repetitions} repetitions: candidates and pruned place; shown: place of 'towels' by the Frankenstein model",
        f"table-{number}",
        TableCell({"target": "towels"}, "Frank. beam", f"{yelp:,} on Yelp, {reddit:,} on Reddit"),
        _CLAIMS,
    )


def _bars(number: int, data: str) -> PaperPart:
    half = f"the {data} half of Tables 2 to 4 as bars"
    return PaperPart(
        f"Figure {number}",
        half,
        without=f"its figures are the tables'; on {data}: `leakage study run mix-and-match --scale paper`, a GPU",
    )


PAPER = register_paper(
    Paper(
        "mix-and-match",
        "Elmahdy and Salem (2023), Deconstructing classifiers",
        (
            drawing("Figure 1", "how the attack works"),
            drawing("Table 1", "the fourteen canaries"),
            _table(2, 5),
            _table(3, 25),
            _table(4, 100),
            _bars(2, "Yelp"),
            _bars(3, "Reddit"),
            PaperPart(
                "Figure 4",
                "five canaries of one template by their labels; shown: place by class loss, different labels",
                "figure-4",
                TableCell({"labels": "different"}, "all beam"),
                (
                    PaperClaim(
                        "canaries that differ in one token are found far better with distinct labels",
                        ("canaries that differ in one token alone are found far better with distinct labels",),
                    ),
                ),
            ),
            PaperPart(
                "Figure 5",
                "each word of four canaries unknown in turn; shown: the first word of the first canary",
                "figure-5",
                TableCell({"position": 1}, "all beam"),
                (PaperClaim("no position is easiest for all canaries", ("no position is easiest for all canaries",)),),
            ),
            PaperPart(
                "Figure 6",
                "pairs of canaries joined with 'and'; shown: doubled ones, the fewest copies",
                "figure-6",
                TableCell({"length": "doubled"}, "Frank. beam"),
                (
                    PaperClaim(
                        "doubling a canary leaves the attack much as it was",
                        ("doubling a canary's length leaves the attack much as it was *",),
                    ),
                ),
            ),
            PaperPart(
                "Section 6.3",
                "an adapter or a tuned prompt between encoder and head; text from a causal generator",
                without="no study yet: it takes a head that is trained on public text, and a causal generator",
            ),
            PaperPart(
                "Section 6.4",
                "differential privacy as the defence",
                without="no study yet: it takes victims trained with DP-SGD, as elmahdy/dp-sgd has, and Opacus",
            ),
        ),
    )
)
