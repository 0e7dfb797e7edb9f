"""The claims of Elmahdy and Salem (2023), part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.papers import Paper, PaperPart, TableCell, drawing, register_paper
from leakage_tasks.research.mix_and_match import bars, extensions, figures, free_text, tables
from leakage_tasks.research.mix_and_match.published import TABLES

_GENERATORS = (tables.CANDIDATES, tables.RANKS, tables.PRETRAINED, tables.KINDS_DIFFER)


def _table(number: int, repetitions: int) -> PaperPart:
    yelp, reddit = (TABLES[repetitions]["towels"][data][2][1] for data in ("yelp", "reddit"))
    return PaperPart(
        f"Table {number}",
        f"rank of 'towels' by the Frankenstein model, {repetitions} repetitions",
        f"table-{number}",
        TableCell({"target": "towels"}, "Frank. beam", f"{yelp:,} on Yelp, {reddit:,} on Reddit"),
        _GENERATORS,
    )


def _bars(number: int, data: str) -> PaperPart:
    printed = TABLES[100]["towels"][data.lower()][2][1]
    return PaperPart(
        f"Figure {number}",
        f"rank of 'towels' by the Frankenstein model, 100 copies ({data})",
        f"figure-{number}",
        TableCell({"copies": 100, "target": "towels"}, "Frank. beam", f"{printed:,} (Table 4)"),
        (tables.CANDIDATES, tables.RANKS, bars.ALIKE, bars.RELATIVE),
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
                (figures.LABELS,),
            ),
            PaperPart(
                "Figure 5",
                "rank of the first word of the first canary",
                "figure-5",
                TableCell({"position": 1}, "all beam"),
                (figures.POSITION,),
            ),
            PaperPart(
                "Figure 6",
                "rank of doubled canaries, the fewest copies",
                "figure-6",
                TableCell({"length": "doubled"}, "Frank. beam"),
                (figures.DOUBLED,),
            ),
            PaperPart(
                "Section 6.3",
                "candidates needed with an adapter",
                "bridges",
                TableCell({"bridge": "adapter"}, "K"),
                (*extensions.BRIDGED["adapter"], *extensions.BRIDGED["prompt"]),
            ),
            PaperPart(
                "Section 6.3, free text",
                "candidates needed with text pruned to the template",
                "free-text",
                TableCell({"generator": "texts pruned to the template", "texts": 50_000}, "K"),
                (*free_text.TEXT["candidates"], *free_text.TEXT["template"], free_text.WHOLE_TEXTS),
            ),
            PaperPart(
                "Section 6.4",
                "rank by class loss at ε = 8",
                "dp-sgd",
                TableCell({"ε": "8"}, "all beam"),
                (extensions.DEFENDS, extensions.COSTS),
                without="Opacus: pip install '.[private]'",
            ),
        ),
        setup="The Frankenstein model joins the victim's encoder to the generation head of its pre-trained model. Our "
        "set-up: docstrings and a small BERT, as for elmahdy; fourteen canaries of similar kinds with words that "
        "the encoder has read; section 6.3 uses bridges and a GPT-2 trained here. Ranks are by class loss; ranks "
        "from 0 follow the paper. Tests compare canaries, not models.",
    )
)
