"""The claims of Elmahdy and Salem (2023), part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.papers import (
    NO_TEST,
    Paper,
    PaperClaim,
    PaperPart,
    TableCell,
    drawing,
    register_paper,
)
from leakage_tasks.research.mix_and_match.published import TABLES

_SUGGESTED = "suggested, not tried"
_MORE = "more than fourteen canaries, rather than more runs"
_FOURTEEN = "more canaries, not more runs; even the paper's own values for its fourteen do not pass this test"
_CLAIMS = (
    PaperClaim(
        "the Frankenstein model needs far fewer candidates than exhaustive search (at most a third)",
        ("*: frankenstein needs a third of *",),
        "up to 50 times fewer",
        takes=_FOURTEEN,
    ),
    PaperClaim(
        "its candidates improve the token's rank over exhaustive search (at least halved)",
        ("*: frankenstein halves *",),
        takes=_FOURTEEN,
    ),
    PaperClaim(
        "the pre-trained language model does about as well",
        ("*: pretrained needs a third of *", "*: pretrained halves *"),
        takes=_FOURTEEN,
    ),
    PaperClaim(
        "the Frankenstein model is better for random canaries, the language model for organic ones",
        ("*: frankenstein needs fewer candidates for random canaries, *",),
        takes=_FOURTEEN,
    ),
)


def _table(number: int, repetitions: int) -> PaperPart:
    yelp, reddit = (TABLES[repetitions]["towels"][data][2][1] for data in ("yelp", "reddit"))
    return PaperPart(
        f"Table {number}",
        f"rank of 'towels' by the Frankenstein model, {repetitions} repetitions",
        f"table-{number}",
        TableCell({"target": "towels"}, "Frank. beam", f"{yelp:,} on Yelp, {reddit:,} on Reddit"),
        _CLAIMS,
    )


_OF_KINDS = _CLAIMS[3].words
_IN_BARS = (
    *_CLAIMS[:2],
    PaperClaim(
        "both generators retrieve tokens equally well",
        ("*: frankenstein and the language model retrieve tokens equally well *",),
        takes=_FOURTEEN,
    ),
    PaperClaim(
        _OF_KINDS,
        ("*: frankenstein's candidates are fewer, relative to the language model's, for random canaries",),
        takes=_FOURTEEN,
    ),
)


def _bars(number: int, data: str) -> PaperPart:
    printed = TABLES[100]["towels"][data.lower()][2][1]
    return PaperPart(
        f"Figure {number}",
        f"rank of 'towels' by the Frankenstein model, 100 copies ({data})",
        f"figure-{number}",
        TableCell({"copies": 100, "target": "towels"}, "Frank. beam", f"{printed:,} (Table 4)"),
        _IN_BARS,
    )


def _improves(bridge: str) -> tuple[PaperClaim, PaperClaim]:
    start = f"{bridge} moves most tokens up among the candidates"
    return (
        PaperClaim(f"{bridge} generates better candidates", (start,), _SUGGESTED, _MORE),
        PaperClaim(f"{bridge} helps after pruning", (f"{start} once they are pruned",), _SUGGESTED, _MORE),
    )


def _writes(pruned: str) -> tuple[PaperClaim, ...]:
    start = f"* texts pruned to the {pruned}"
    return (
        PaperClaim(
            f"much text, pruned to the {pruned}, needs far fewer candidates than exhaustive search",
            (f"{start} need a third of exhaustive search's candidates, or fewer, for most",),
            _SUGGESTED,
            _MORE,
        ),
        PaperClaim(
            f"much text, pruned to the {pruned}, beats a masked model",
            (f"{start} rank most tokens higher than the Frankenstein model",),
            _SUGGESTED,
            _MORE,
        ),
        PaperClaim(
            f"more text, pruned to the {pruned}, does better",
            (f"{start} need fewer candidates for most than [0-9]*",),
            _SUGGESTED,
            _MORE,
        ),
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
                "rank by class loss, different labels",
                "figure-4",
                TableCell({"labels": "different"}, "all beam"),
                (
                    PaperClaim(
                        "canaries that differ in one token are found far better with distinct labels",
                        ("canaries that differ in one token alone are found far better with distinct labels",),
                        caveat=NO_TEST,
                    ),
                ),
            ),
            PaperPart(
                "Figure 5",
                "rank of the first word of the first canary",
                "figure-5",
                TableCell({"position": 1}, "all beam"),
                (
                    PaperClaim(
                        "no position is easiest for all canaries",
                        ("no position is easiest for all canaries",),
                        caveat=f"{NO_TEST}; chance alone would often agree",
                    ),
                ),
            ),
            PaperPart(
                "Figure 6",
                "rank of doubled canaries, the fewest copies",
                "figure-6",
                TableCell({"length": "doubled"}, "Frank. beam"),
                (
                    PaperClaim(
                        "doubling a canary hardly changes the attack",
                        ("doubling a canary's length leaves the attack much as it was *",),
                        caveat=NO_TEST,
                    ),
                ),
            ),
            PaperPart(
                "Section 6.3",
                "candidates needed with an adapter",
                "bridges",
                TableCell({"bridge": "adapter"}, "K"),
                (*_improves("an adapter"), *_improves("a tuned prompt")),
            ),
            PaperPart(
                "Section 6.3, free text",
                "candidates needed with text pruned to the template",
                "free-text",
                TableCell({"generator": "texts pruned to the template", "texts": 50_000}, "K"),
                (
                    *_writes("candidates"),
                    *_writes("template"),
                    PaperClaim(
                        "whole texts do better than single tokens from this model",
                        ("* texts pruned to the template rank most tokens higher than the causal model, *",),
                        _SUGGESTED,
                        _MORE,
                    ),
                ),
            ),
            PaperPart(
                "Section 6.4",
                "rank by class loss at ε = 8",
                "dp-sgd",
                TableCell({"ε": "8"}, "all beam"),
                (
                    PaperClaim(
                        "differential privacy defends against the attack (mean rank with vs without)",
                        ("ε = 8: DP-SGD moves tokens down in the order of the class loss",),
                    ),
                    PaperClaim("the defence may reduce accuracy (with vs without)", ("ε = 8: DP-SGD costs accuracy",)),
                ),
                without="Opacus: pip install '.[private]'",
            ),
        ),
        setup="The Frankenstein model joins the victim's encoder to the generation head of its pre-trained model. Our "
        "set-up: docstrings and a small BERT, as for elmahdy; fourteen canaries of similar kinds with words that "
        "the encoder has read; section 6.3 uses bridges and a GPT-2 trained here. Ranks are by class loss; ranks "
        "from 0 follow the paper. Tests compare canaries, not models.",
    )
)
