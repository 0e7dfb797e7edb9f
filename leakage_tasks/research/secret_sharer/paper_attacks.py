"""What Carlini et al. (2019) show of extraction and of defences, part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.papers import NO_TEST, PaperClaim, PaperPart, TableCell, drawing
from leakage_tasks.research.secret_sharer.defences import RMSPROP
from leakage_tasks.research.secret_sharer.extraction import PUBLISHED_GUESS
from leakage_tasks.research.secret_sharer.translation import TABLE_6

_OPACUS = "needs Opacus: `pip install '.[private]'`"

EXTRACTING = (
    PaperPart(
        "Section 7.1",
        "extraction algorithms; shown: how often shortest path has a secret of rank 1 first",
        "extraction",
        TableCell({"algorithm": "shortest path, certain"}, "found first"),
        (
            PaperClaim(
                "shortest path finds it with far fewer calls than brute force",
                ("shortest path finds a secret of rank 1 with * times fewer calls than brute force",),
                "two to four orders of magnitude",
            ),
            PaperClaim("its stop with batches finds it too", ("the paper's stop finds what the certain one finds",)),
            PaperClaim("beam search, however wide, rarely does", ("beam search, the widest, finds less than half *",)),
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
            PaperClaim("fewer the more it is exposed", ("the more exposed a secret, the fewer calls it takes",)),
        ),
    ),
    PaperPart(
        "Table 5",
        "secrets that people wrote into their mails; here in invented mails",
        "table-5",
        claims=(
            PaperClaim("all are heavily memorized", ("all are memorized",), "exposure 10 to 52"),
            PaperClaim("some can be extracted", ("shortest-path search extracts some of them",), "3 of 10"),
        ),
    ),
    PaperPart(
        "Table 5: chats",
        "the same in text that people wrote: chat messages, with invented secrets among them",
        "table-5-chats",
        claims=(
            PaperClaim("all are heavily memorized", ("all are memorized",), "exposure 10 to 52"),
            PaperClaim("some can be extracted", ("shortest-path search extracts some of them",), "3 of 10"),
        ),
        without="needs chitchat-dataset",
    ),
    PaperPart(
        "Section 7.3",
        "word-level models; shown: exposure of digits that are words",
        "word-level",
        TableCell({"secret": "words, a digit each"}, "extrapolated"),
        (
            PaperClaim("they memorize too", ("word-level models memorize too",)),
            PaperClaim("English number words less than digits", ("digits as words are exposed more than *",)),
        ),
    ),
    PaperPart(
        "Table 6",
        "a translation model; shown: exposure of a secret inserted four times",
        "table-6",
        TableCell({"times inserted": "4"}, "exposure, filled source", TABLE_6[4][0]),
        (
            PaperClaim("exposure grows with insertions", ("exposure grows with the times inserted *",), "10, 21, 33"),
            PaperClaim(
                "once is more than chance", ("a secret inserted once is more exposed than one never seen",), "10"
            ),
            PaperClaim("four times are enough to extract it", ("the secret inserted 4 times can be extracted, *",)),
        ),
        trials=None,
    ),
)
DEFENCES = (
    PaperPart(
        "Appendix D",
        "dropout and weight decay; shown: exposure with the least dropout",
        "regularization",
        TableCell({"regularization": "dropout"}, "exposure"),
        (
            PaperClaim(
                "neither stops memorization",
                ("neither dropout nor weight decay stops memorization",),
                caveat="by exposure above chance, not by extraction",
            ),
        ),
    ),
    PaperPart(
        "Appendix D.3",
        "weights of few values; shown: exposure with 256",
        "quantization",
        TableCell({"values a weight": "256"}, "exposure"),
        (
            PaperClaim("exposure does not change", ("with 256 values a weight the secret is as exposed *",)),
            PaperClaim("nor does the loss", ("and the loss the same, *",)),
        ),
    ),
    PaperPart(
        "Appendix F",
        "samples dropped before training; shown: exposure without them",
        "sanitization",
        TableCell({"training text": "without"}, "exposure"),
        (
            PaperClaim("the secret is among them", ("the secret is among the samples that are dropped",)),
            PaperClaim("the model then does not know it", ("a model trained on the others does not know it",)),
            PaperClaim("the loss rises slightly", ("the loss rises slightly: *",), caveat=NO_TEST),
        ),
    ),
    PaperPart(
        "Appendix F: several copies",
        "left to future work: a secret several times, in copies that differ; shown: the last copy's place, in groups",
        "near-copies",
        TableCell({"training text": "grouped"}, "last copy's place"),
        (
            PaperClaim(
                "the algorithm depends on a secret that appears only once",
                ("ranked one by one, copies that differ stay in the text",),
            ),
        ),
    ),
    PaperPart(
        "Table 7",
        "DP-SGD; shown: exposure with RMSProp at ε = 0.65",
        "table-7",
        TableCell({"training": "rmsprop, ε = 0.65"}, "exposure", RMSPROP[0.65][1]),
        (
            PaperClaim(
                "with DP-SGD no model knows the secret, at whatever ε",
                ("no model trained with DP-SGD knows the secret, *",),
                "exposure 1.1 to 3.6",
                caveat="here five copies stand in 40,000 characters, in the paper one in 5 MB",
            ),
            PaperClaim(
                "without it the secret is far more exposed",
                ("RMSProp without DP exposes it more than those with",),
                "31.0 against 1.1 to 3.2",
            ),
            PaperClaim("a larger ε means a lower loss", ("a larger ε means a lower loss",), "1.69 to 1.26"),
        ),
        _OPACUS,
    ),
    drawing("Table 8", "how the models are trained"),
    PaperPart(
        "Table 9",
        "the likeliest fillings; shown: log-perplexity of the first",
        "table-9",
        TableCell({"place": 1}, "bits", PUBLISHED_GUESS[0][0]),
        (
            PaperClaim("the secret is the likeliest of all", ("the secret is the likeliest filling of all",)),
            PaperClaim(
                "the others are slight variants", ("the others are slight variants of it *",), caveat="of one model"
            ),
        ),
    ),
    PaperPart(
        "Figure 6",
        "true rank against the extrapolated one",
        "figure-6",
        claims=(
            PaperClaim("the extrapolated rank follows the true one", ("the tail grows with true exposure",)),
            PaperClaim("beyond 30 bits the secret has rank 1 most of the time", ("beyond 30 bits *",), caveat=NO_TEST),
        ),
    ),
    drawing("Table 10", "how often the secrets of Table 5 stand in the mails"),
)
