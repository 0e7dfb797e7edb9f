"""The further inputs of the membership attacks: reference models, a context, frequencies of tokens, similar texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.attacks.membership.masked_neighbours import masked_neighbours
from leakage_tasks.attacks.membership.neighbours import Similar, by_words
from leakage_tasks.attacks.membership.request import WORDS
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, PlantingError, in_metadata
from leakage_tasks.core.log import log
from leakage_tasks.harness.api import LM
from leakage_tasks.pairs.document_texts import document_blocks, hold_chats, read_documents
from leakage_tasks.targets.protocols import CutText, ReadsTexts
from leakage_tasks.targets.suffix.text_reader import CausalTextReader
from leakage_tasks.tasks.membership.options import MembershipOptions
from leakage_tasks.tasks.membership.texts import TestedTexts
from leakage_tasks.tasks.suffix.references import load_beside


def references_of(
    lm: LM, options: MembershipOptions, reader: ReadsTexts, before: str | None, texts: Sequence[CutText]
) -> list[CausalTextReader]:
    """Return readers of the reference models: the named ones, else the model without its adapter, else none."""
    if not options.request.references:
        base = reader.target.before_fine_tuning() if isinstance(reader, CausalTextReader) else None
        return [] if base is None else [CausalTextReader(base, before)]
    references = []
    for name in options.request.references:
        references.append(CausalTextReader(load_beside(lm, "reference", name), before))
        _check_reads_texts(name, references[-1], texts)
    return references


def _check_reads_texts(name: str, reference: CausalTextReader, texts: Sequence[CutText]) -> None:
    """Raise OptionError if the reference model reads less of a text, or has no token for a part of it."""
    unknown, rows = reference.target.tokenizer.unk_token_id, reference.target.encode([text.text for text in texts])
    longest, most = max(map(len, rows)) - len(texts[0].first), reference.max_length
    if most is not None and longest > most:
        raise OptionError(
            f"reference={name}: reads {most} tokens of a text, and the longest one has {longest}: lower tokens="
        )
    same = rows == [[*text.first, *text.tokens] for text in texts]
    missed = 0 if unknown is None or same else sum(unknown in row for row in rows)
    if missed:
        raise OptionError(
            f"reference={name}: its tokenizer has no token for a part of {missed} of {len(rows)} texts, so its "
            "log-likelihoods are of other texts: give a model that can read them"
        )


def context_of(reader: ReadsTexts, shots: Sequence[str], tokens: int) -> CutText:
    """Return the context of ``recall``: non-members, each cut to an equal number of tokens so that a text fits."""
    lines = len("\n\n")
    room = len(shots) * (tokens + lines) if reader.max_length is None else reader.max_length - tokens
    size = room // len(shots) - lines
    if size < 1:
        raise OptionError(
            f"shots={len(shots)}: no room for that many non-members before a text of tokens={tokens} in the "
            f"{reader.max_length} tokens that the model reads: lower tokens or shots"
        )
    cut = reader.cut(shots, min(tokens, size))
    (context,) = reader.cut(["".join(f"{text.text}\n\n" for text in cut)], room)
    return context


def frequencies_of(options: MembershipOptions, reader: ReadsTexts) -> FloatArray:
    """Return the Laplace-smoothed probability of each token in the reference corpus ``[V]``."""
    name = options.request.frequencies
    assert name is not None
    counts = _counts(name, _blocks(name, options), reader)
    return (counts + 1) / (counts.sum() + len(counts))


def _blocks(name: str, options: MembershipOptions) -> Iterator[Iterable[str]]:
    """Return the blocks of each document of a corpus. A run on rendered conversations renders its chats, too.

    Raises OptionError for a corpus of chats if the texts of the run are plain.
    """
    if not hold_chats(name, options.text_column):
        return document_blocks(Path(name), options.text_column)
    if not options.hold_chats():
        raise OptionError(
            f"frequencies={name}: holds chats, and the texts of this run are plain text: give a corpus of plain text"
        )
    if options.rendering is None:
        return document_blocks(Path(name), options.text_column)
    documents = read_documents(Path(name), options.text_column, chats=True)
    return ([document.text(options.rendering)] for document in documents)


def _counts(name: str, documents: Iterable[Iterable[str]], reader: ReadsTexts) -> FloatArray:
    """Return the number of occurrences of each token in a corpus ``[V]``, whose documents come in blocks.

    A document is tokenized in blocks, so that a file of any size takes little memory.
    """
    assert isinstance(reader, CausalTextReader)
    assert reader.vocabulary is not None
    counts = np.zeros(reader.vocabulary)
    try:
        for tokens in reader.pieces(documents):
            np.add.at(counts, np.asarray(tokens, dtype=np.int64), 1)
    except PlantingError as error:
        raise error.spelled(in_metadata, OptionError) from None
    if not counts.any():
        raise OptionError(f"frequencies={name}: holds no token to count: give a corpus of text")
    log.info("leakage: counted %d tokens of %s", counts.sum(), name)
    return counts


def similar_of(options: MembershipOptions, lm: Any, tested: TestedTexts, cut: Sequence[CutText]) -> Similar:
    """Return the function that makes similar texts; words that a chat template writes stay unchanged."""
    name = options.request.neighbours or WORDS
    spans = {text.text: whole.spoken for text, whole in zip(cut, tested.texts, strict=True)}
    if name == WORDS:
        return partial(by_words, spoken=spans.get)
    return masked_neighbours(name, getattr(lm, "device", "cpu"), spans.get)
