"""The claims of Carlini et al. (2019) about extraction and defences, part by part."""

from __future__ import annotations

from leakage_tasks.research.framework.papers import PaperPart, TableCell, drawing
from leakage_tasks.research.secret_sharer import (
    defences,
    extraction,
    figures,
    mails,
    near_copies,
    training,
    translation,
)

_OPACUS = "needs Opacus: `pip install '.[private]'`"

EXTRACTING = (
    PaperPart(
        "Section 7.1",
        "share of secrets of rank 1 that shortest path finds first",
        "extraction",
        TableCell({"algorithm": "shortest path, certain"}, "found first"),
        (extraction.FEWER_CALLS, extraction.PAPERS_STOP, extraction.BEAM_RARELY),
    ),
    PaperPart(
        "Figure 5",
        "calls of shortest path by exposure",
        "figure-5",
        claims=(figures.FEWER_CALLS, figures.FEWER_IF_EXPOSED),
    ),
    PaperPart(
        "Table 5", "secrets in mails; here in invented mails", "table-5", claims=(mails.MEMORIZED, mails.EXTRACTED)
    ),
    PaperPart(
        "Table 5: chats",
        "invented secrets among chat messages that people wrote",
        "table-5-chats",
        claims=(mails.MEMORIZED, mails.EXTRACTED),
        without="needs chitchat-dataset",
    ),
    PaperPart(
        "Section 7.3",
        "exposure of digits as words",
        "word-level",
        TableCell({"secret": "words, a digit each"}, "extrapolated"),
        (training.WORD_LEVEL, training.NUMBER_WORDS),
    ),
    PaperPart(
        "Table 6",
        "exposure of a secret with four copies",
        "table-6",
        TableCell({"times inserted": "4"}, "exposure, filled source", translation.TABLE_6[4][0]),
        (translation.GROWS, translation.ONE_COPY, translation.FOUR_COPIES),
        trials=None,
    ),
)
DEFENCES = (
    PaperPart(
        "Appendix D",
        "exposure with the least dropout",
        "regularization",
        TableCell({"regularization": "dropout"}, "exposure"),
        (training.REGULARIZED,),
    ),
    PaperPart(
        "Appendix D.3",
        "exposure with 256 values per weight",
        "quantization",
        TableCell({"values a weight": "256"}, "exposure"),
        (defences.QUANTIZED, defences.QUANTIZED_LOSS),
    ),
    PaperPart(
        "Appendix F",
        "exposure without the dropped samples",
        "sanitization",
        TableCell({"training text": "without"}, "exposure"),
        (defences.DROPPED, defences.SANITIZED, defences.SANITIZED_LOSS),
    ),
    PaperPart(
        "Appendix F: several copies",
        "rank of the last differing copy, ranked in groups (future work)",
        "near-copies",
        TableCell({"training text": "grouped"}, "last copy's place"),
        (near_copies.ONE_COPY_ONLY,),
    ),
    PaperPart(
        "Table 7",
        "exposure with RMSProp at ε = 0.65",
        "table-7",
        TableCell({"training": "rmsprop, ε = 0.65"}, "exposure", defences.RMSPROP[0.65][1]),
        (defences.PRIVATE, defences.NOT_PRIVATE, defences.LARGER_EPSILON),
        _OPACUS,
    ),
    drawing("Table 8", "how the models are trained"),
    PaperPart(
        "Table 9",
        "log-perplexity of the likeliest filling",
        "table-9",
        TableCell({"place": 1}, "bits", extraction.PUBLISHED_GUESS[0][0]),
        (extraction.LIKELIEST, extraction.VARIANTS),
    ),
    PaperPart(
        "Figure 6", "true rank against extrapolated rank", "figure-6", claims=(figures.FOLLOWS_RANK, figures.RANK_ONE)
    ),
    drawing("Table 10", "copies of the secrets of Table 5 in the mails"),
)
