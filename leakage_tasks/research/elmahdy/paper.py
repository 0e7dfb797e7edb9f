"""What Elmahdy, Inan and Sim (2022) show and claim, part by part."""

from __future__ import annotations

from leakage_tasks.research.elmahdy.calibrated import ALL, GAIN
from leakage_tasks.research.elmahdy.positions import ALL as ANYWHERE
from leakage_tasks.research.elmahdy.positions import CHANCE, KEPT
from leakage_tasks.research.elmahdy.tables import TABLE_2, TABLE_3, TABLE_4
from leakage_tasks.research.framework.gains import cell_excess, cell_value
from leakage_tasks.research.framework.papers import (
    BeyondItem,
    Paper,
    PaperClaim,
    PaperPart,
    TableCell,
    drawing,
    register_paper,
)

PAPER = register_paper(
    Paper(
        "elmahdy",
        "Elmahdy, Inan and Sim (2022), Privacy leakage in text classification",
        (
            drawing("Table 1", "which canaries the other tables plant"),
            PaperPart(
                "Table 2",
                "success on the last one, two and three tokens by penalty; shown: λ = 0.01, the last token",
                "table-2",
                TableCell({"λ": 0.01}, "last 1", TABLE_2[0.01][0]),
                (
                    PaperClaim(
                        "the last token comes out far more often than by a random guess",
                        ("100 repetitions leak the last token far above random guess",),
                        "0.9 against 0.0058",
                    ),
                    PaperClaim(
                        "each further unknown token makes it harder",
                        ("two unknown tokens are harder than one", "three are harder than two"),
                        "0.9, 0.3, 0",
                    ),
                    PaperClaim("λ = 0 costs little", ("λ = 0 does no worse than 0.01",), "0.8 against 0.9"),
                    PaperClaim("a large λ costs success", ("λ = 10 does worse than 0.01",), "0.1 against 0.9"),
                ),
            ),
            PaperPart(
                "Table 3",
                "success by repetitions and beam; shown: 100 repetitions, a beam of 100",
                "table-3",
                TableCell({"repetitions": 100, "beam": 100}, "measured", TABLE_3[100, 100]),
                (
                    PaperClaim(
                        "the attack beats a random guess",
                        ("success at 100 is far above random guess at 100 repetitions",),
                        "0.9 against 0.0058",
                    ),
                    PaperClaim(
                        "more repetitions leak more",
                        ("100 repetitions leak more than 10", "* leak no less than *"),
                        "0.9, 0.5, 0.3, 0.1",
                    ),
                ),
            ),
            PaperPart(
                "Table 4",
                "success by copies of one supporting canary; shown: 99 copies, a beam of 100",
                "table-4",
                TableCell({"repetitions": 99, "beam": 100}, "measured", TABLE_4[99, 100]),
                (
                    PaperClaim(
                        "the canary comes out even without a supporting one",
                        ("even without one, extraction is possible",),
                        "0.1 against 0.0058",
                    ),
                    PaperClaim(
                        "a supporting canary in another class helps greatly",
                        ("a supporting canary in one class beats none",),
                        "0.5 against 0.1",
                    ),
                    PaperClaim(
                        "how often the supporting canary stands there has no effect",
                        ("copies of the supporting canary make no difference",),
                        "0.5, 0.4, 0.5",
                    ),
                ),
            ),
            PaperPart(
                "Section 7",
                "supporting canaries in all other classes (Table 2) against none (Table 4)",
                "table-4",
                TableCell({"repetitions": "1 in all", "beam": 100}, "measured", TABLE_2[0.0][0]),
                (
                    PaperClaim(
                        "supporting canaries in all other classes raise success greatly",
                        ("a supporting canary in all other classes beats none",),
                        "0.8 against 0.1",
                    ),
                ),
            ),
            PaperPart(
                "Section 8: classes",
                "left to future work: canaries from the rarest to the most popular class; shown: the rarest",
                "class-rank",
                TableCell({"class": "rarest"}, "success@100"),
                (
                    PaperClaim(
                        "the rarest class leaks most (section 7 expects it)",
                        ("a canary in the rarest class leaks no less than in the largest",),
                    ),
                ),
            ),
            PaperPart(
                "Section 8: organic canaries",
                "left to future work: sentences instead of random words; shown: organic",
                "organic",
                TableCell({"canary": "organic"}, "success@100"),
            ),
            PaperPart(
                "Section 8: privacy",
                "left to future work: DP-SGD; shown: ε = 8",
                "dp-sgd",
                TableCell({"ε": "8"}, "success@100"),
                without="needs Opacus: `pip install '.[private]'`",
            ),
        ),
        (
            BeyondItem(
                "ranking by how much lower the loss is than another classifier's (`signal=calibrated`)",
                "calibrated",
                "bits of exposure more than by the loss, on the victims of Table 3, more is better",
                cell_value({"copies": ALL}, GAIN),
            ),
            BeyondItem(
                "unknown tokens anywhere, by a shortlist from the gradient at the full vocabulary of a real encoder",
                "positions",
                "share of the ten best of all values that are the shortlist's too, one unknown token, more than of a "
                "random shortlist of as many values",
                cell_excess({"unknown tokens": 1, "where": ANYWHERE}, KEPT, CHANCE),
            ),
            BeyondItem(
                "what comes out by it",
                "positions",
                "share of planted secrets among the first ten guesses, one unknown token, more is better",
                cell_value({"unknown tokens": 1, "where": ANYWHERE}, "found within 10"),
            ),
        ),
    )
)
