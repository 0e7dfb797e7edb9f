"""A harness model as a reader of whole texts, and the further inputs of the membership attacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakage_tasks.attacks.membership.attack import Inputs
from leakage_tasks.attacks.membership.masked_neighbours import masked_neighbours
from leakage_tasks.attacks.membership.neighbours import Similar, by_words
from leakage_tasks.attacks.membership.registry import MembershipAttack, Need
from leakage_tasks.attacks.membership.request import WORDS
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, PlantingError, TargetError, in_metadata
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.pairs.document_texts import document_blocks, hold_chats, read_documents
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.harness.endpoint import takes_messages_alone
from leakage_tasks.targets.harness.target import target_for_texts
from leakage_tasks.targets.harness.text_reader import HarnessTextReader
from leakage_tasks.targets.protocols import CutText, ReadsTexts, ScoresSequences
from leakage_tasks.targets.suffix.text_reader import CausalTextReader
from leakage_tasks.tasks.membership.options import MembershipOptions
from leakage_tasks.tasks.membership.texts import TestedTexts
from leakage_tasks.tasks.suffix.references import load_beside


class Prepared(NamedTuple):
    """The reader, the texts cut to the tokens that are read, the attacks to run, the reasons for the others, and the
    inputs."""

    reader: ReadsTexts
    texts: list[CutText]
    attacks: list[MembershipAttack]
    not_run: dict[str, str]
    inputs: Inputs


def prepare(lm: LM, options: MembershipOptions, tested: TestedTexts, before: str | None) -> Prepared:
    """Return everything that the attacks need.

    ``before`` is the text that a chat template puts before each text; it is empty for rendered conversations.

    Raises:
        OptionError: The user named an attack that cannot run, or a further input is unusable.
        TargetError: The model gives no log-likelihoods of texts.
    """
    plain = [text.text for text in tested.texts]
    reader = reader_of(lm, plain, before, options.tokenizer)
    tokens = _tokens_read(reader, options)
    texts = reader.cut(plain, tokens)
    request = options.request
    references = _references(lm, options, reader, before, texts) if request.needs("reference") else []
    attacks, not_run = _served(reader, options, bool(references))
    needs = {need for attack in attacks for need in attack.needs}
    inputs = Inputs(
        references if "reference" in needs else (),
        _context(reader, tested.context, tokens) if "context" in needs else None,
        _frequencies(options, reader) if "frequencies" in needs else None,
        _similar(options, lm, tested, texts) if "neighbours" in needs else None,
    )
    return Prepared(reader, texts, attacks, not_run, inputs)


def reader_of(lm: LM, texts: Sequence[str], before: str | None, tokenizer: str | None) -> ReadsTexts:
    """Return the reader of a model, with the most figures that it gives. Raises TargetError if it gives none."""
    if takes_messages_alone(lm):
        raise TargetError(f"{type(lm).__name__} accepts only messages and scores no text: use another model or API")
    target = target_for_texts(lm, texts)
    if isinstance(target, CausalTarget):
        return CausalTextReader(target, before)
    if before == "":
        raise TargetError(
            f"--apply_chat_template: {type(lm).__name__} takes text, and may read a template's tokens in it otherwise: "
            "use a causal model of --model hf, or leave the flag out"
        )
    if not isinstance(target, ScoresSequences):
        raise TargetError(f"{type(lm).__name__} gives no log-likelihood of a text, which every membership attack needs")
    return HarnessTextReader(lm, target, before, None if isinstance(lm, HFLM) else tokenizer)


def _tokens_read(reader: ReadsTexts, options: MembershipOptions) -> int:
    wanted, most, context = options.request.tokens, reader.max_length, options.request.needs("context")
    if most is not None and context:
        most //= 2
    if most is None or wanted <= most:
        return wanted
    if most < 1:
        raise TargetError("membership: the chat template leaves no room for a text: use a model with a longer context")
    after = " after the context of recall" if context else ""
    if "tokens" in options.given:
        raise OptionError(f"tokens={wanted}: the model reads at most {most}{after}: lower tokens")
    warn_once(f"membership: reads {most} tokens of each text, because the model reads no more{after}")
    return most


def _served(
    reader: ReadsTexts, options: MembershipOptions, reference: bool
) -> tuple[list[MembershipAttack], dict[str, str]]:
    """Return the attacks to run, and the reason for each other one. Raises OptionError for a named one."""
    request, not_run, attacks = options.request, {}, []
    lacks: dict[Need, str] = {}
    if not reader.gives_tokens:
        lacks["tokens"] = "the model gives no log-probabilities of tokens"
    if not reader.gives_distributions:
        lacks["distributions"] = "the model gives no probabilities of the whole vocabulary"
    if not reader.takes_context:
        lacks["context"] = "the model reads no text before a text"
    if not reference:
        lacks["reference"] = "there is no reference model and no adapter: pass reference=MODEL"
    if options.request.frequencies is None:
        lacks["frequencies"] = "there is no reference corpus: pass frequencies=DATA"
    for attack in request.chosen():
        reason = next((lacks[need] for need in attack.needs if need in lacks), None)
        if reason is None:
            attacks.append(attack)
        elif request.named:
            raise OptionError(f"attacks={request.attacks}: {attack.name} cannot run: {reason}")
        else:
            not_run[attack.name] = reason
    return attacks, not_run


def _references(
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


def _context(reader: ReadsTexts, shots: Sequence[str], tokens: int) -> CutText:
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


def _frequencies(options: MembershipOptions, reader: ReadsTexts) -> FloatArray:
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


def _similar(options: MembershipOptions, lm: Any, tested: TestedTexts, cut: Sequence[CutText]) -> Similar:
    """Return the function that makes similar texts; words that a chat template writes stay unchanged."""
    name = options.request.neighbours or WORDS
    spans = {text.text: whole.spoken for text, whole in zip(cut, tested.texts, strict=True)}
    if name == WORDS:
        return partial(by_words, spoken=spans.get)
    return masked_neighbours(name, getattr(lm, "device", "cpu"), spans.get)
