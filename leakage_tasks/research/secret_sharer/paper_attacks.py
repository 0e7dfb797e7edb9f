"""The claims of Carlini et al. (2019) about extraction and defences, part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.papers import NO_TEST, PaperClaim, PaperPart, TableCell, drawing
from leakage_tasks.research.secret_sharer.defences import RMSPROP
from leakage_tasks.research.secret_sharer.extraction import PUBLISHED_GUESS
from leakage_tasks.research.secret_sharer.translation import TABLE_6

_OPACUS = "needs Opacus: `pip install '.[private]'`"

EXTRACTING = (
    PaperPart(
        "Section 7.1",
        "share of secrets of rank 1 that shortest path finds first",
        "extraction",
        TableCell({"algorithm": "shortest path, certain"}, "found first"),
        (
            PaperClaim(
                "shortest path needs far fewer calls than brute force",
                ("shortest path finds a secret of rank 1 with * times fewer calls than brute force",),
                "two to four orders of magnitude",
            ),
            PaperClaim(
                "its stop with batches finds the secret too",
                ("the paper's stop finds every secret that the certain stop finds",),
            ),
            PaperClaim(
                "beam search rarely finds the secret at any width", ("beam search, the widest, finds less than half *",)
            ),
        ),
    ),
    PaperPart(
        "Figure 5",
        "calls of shortest path by exposure",
        "figure-5",
        claims=(
            PaperClaim(
                "a secret of rank 1 takes far fewer calls than brute force", ("a secret of rank 1 is found with *",)
            ),
            PaperClaim(
                "more exposed secrets need fewer calls", ("the more exposed a secret, the fewer calls it takes",)
            ),
        ),
    ),
    PaperPart(
        "Table 5",
        "secrets in mails; here in invented mails",
        "table-5",
        claims=(
            PaperClaim("all are heavily memorized", ("all are memorized",), "exposure 10 to 52"),
            PaperClaim("some can be extracted", ("shortest-path search extracts some of them",), "3 of 10"),
        ),
    ),
    PaperPart(
        "Table 5: chats",
        "invented secrets among chat messages that people wrote",
        "table-5-chats",
        claims=(
            PaperClaim("all are heavily memorized", ("all are memorized",), "exposure 10 to 52"),
            PaperClaim("some can be extracted", ("shortest-path search extracts some of them",), "3 of 10"),
        ),
        without="needs chitchat-dataset",
    ),
    PaperPart(
        "Section 7.3",
        "exposure of digits as words",
        "word-level",
        TableCell({"secret": "words, a digit each"}, "extrapolated"),
        (
            PaperClaim("word-level models memorize too", ("word-level models memorize too",)),
            PaperClaim(
                "English number words are memorized less than digits", ("digits as words are exposed more than *",)
            ),
        ),
    ),
    PaperPart(
        "Table 6",
        "exposure of a secret with four copies",
        "table-6",
        TableCell({"times inserted": "4"}, "exposure, filled source", TABLE_6[4][0]),
        (
            PaperClaim("exposure grows with copies", ("exposure grows with the times inserted *",), "10, 21, 33"),
            PaperClaim(
                "one copy is more exposed than chance",
                ("a secret inserted once is more exposed than one never seen",),
                "10",
            ),
            PaperClaim("four copies suffice for extraction", ("the secret inserted 4 times can be extracted, *",)),
        ),
        trials=None,
    ),
)
DEFENCES = (
    PaperPart(
        "Appendix D",
        "exposure with the least dropout",
        "regularization",
        TableCell({"regularization": "dropout"}, "exposure"),
        (
            PaperClaim(
                "dropout and weight decay do not stop memorization",
                ("neither dropout nor weight decay stops memorization",),
                caveat="by exposure above chance, not by extraction",
            ),
        ),
    ),
    PaperPart(
        "Appendix D.3",
        "exposure with 256 values per weight",
        "quantization",
        TableCell({"values a weight": "256"}, "exposure"),
        (
            PaperClaim(
                "exposure does not change with 256 values per weight", ("with 256 values a weight exposure changes *",)
            ),
            PaperClaim("the loss does not change either", ("and the loss changes by at most 1 %",)),
        ),
    ),
    PaperPart(
        "Appendix F",
        "exposure without the dropped samples",
        "sanitization",
        TableCell({"training text": "without"}, "exposure"),
        (
            PaperClaim("the secret is among the dropped samples", ("the secret is among the dropped samples",)),
            PaperClaim("the model then does not know it", ("a model trained on the other samples does not know it",)),
            PaperClaim("the loss rises slightly", ("the loss rises slightly: *",), caveat=NO_TEST),
        ),
    ),
    PaperPart(
        "Appendix F: several copies",
        "rank of the last differing copy, ranked in groups (future work)",
        "near-copies",
        TableCell({"training text": "grouped"}, "last copy's place"),
        (
            PaperClaim(
                "the algorithm works only for secrets with one copy",
                ("ranked one by one, differing copies stay in the text",),
            ),
        ),
    ),
    PaperPart(
        "Table 7",
        "exposure with RMSProp at ε = 0.65",
        "table-7",
        TableCell({"training": "rmsprop, ε = 0.65"}, "exposure", RMSPROP[0.65][1]),
        (
            PaperClaim(
                "with DP-SGD no model knows the secret, at any ε",
                ("no model trained with DP-SGD knows the secret, *",),
                "exposure 1.1 to 3.6",
                caveat="five copies in 40,000 characters, the paper has one in 5 MB",
            ),
            PaperClaim(
                "without DP-SGD the secret is far more exposed",
                ("RMSProp without DP-SGD exposes it more",),
                "31.0 vs 1.1 to 3.2",
            ),
            PaperClaim("a larger ε means a lower loss", ("a larger ε means a lower loss",), "1.69 to 1.26"),
        ),
        _OPACUS,
    ),
    drawing("Table 8", "how the models are trained"),
    PaperPart(
        "Table 9",
        "log-perplexity of the likeliest filling",
        "table-9",
        TableCell({"place": 1}, "bits", PUBLISHED_GUESS[0][0]),
        (
            PaperClaim("the secret is the likeliest of all", ("the secret is the likeliest filling of all",)),
            PaperClaim(
                "the next fillings are slight variants", ("the others are slight variants of it *",), caveat="one model"
            ),
        ),
    ),
    PaperPart(
        "Figure 6",
        "true rank against extrapolated rank",
        "figure-6",
        claims=(
            PaperClaim("the extrapolated rank follows the true rank", ("the tail grows with true exposure",)),
            PaperClaim("beyond 30 bits the secret has rank 1 most of the time", ("beyond 30 bits *",), caveat=NO_TEST),
        ),
    ),
    drawing("Table 10", "copies of the secrets of Table 5 in the mails"),
)
