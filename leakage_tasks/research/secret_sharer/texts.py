"""The texts that studies of The Secret Sharer train on, with secrets planted in them."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.shared import data_folder
from leakage_tasks.research.secret_sharer.experiment import CHARACTERS, HELP, LanguageModelExperiment

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.canaries import Canary
    from leakage_tasks.research.victims.corpus import Corpus

_WORD = re.compile(r"\w+|[^\w\s]")


def text_of(ground: LanguageModelExperiment) -> Corpus:
    """Training and held-out text. Raises LeakageError where the Penn Treebank is not there."""
    from leakage_tasks.research.victims.corpus import Corpus, pydoc_topics

    if ground.data == HELP:
        found = pydoc_topics(characters=ground.characters)
        return replace(found, held_out=found.held_out[: ground.held_out])
    folder = data_folder() / "ptb"
    parts = []
    for path in (folder / "ptb.train.txt", folder / "ptb.valid.txt"):
        if not path.is_file():
            raise LeakageError(f"{path}: no such file: put the Penn Treebank there, or run --scale small without it")
        parts.append(path.read_text(encoding="utf-8"))
    return Corpus(*parts)


def as_words(text: str) -> str:
    """Lower-cased words and marks with a space between, line by line, as word-level models read text."""
    return "\n".join(" ".join(_WORD.findall(line)) for line in text.lower().split("\n"))


def prepared(ground: LanguageModelExperiment, units: str) -> Corpus:
    """The text in the units a model reads."""
    text = text_of(ground)
    return (
        text
        if units == CHARACTERS
        else replace(text, training=as_words(text.training), held_out=as_words(text.held_out))
    )


def planted(text: str, canaries: Sequence[Canary], seed: int) -> str:
    """``text`` with the canaries in lines of their own, at random places (section 4.1)."""
    from leakage_tasks.canaries.planting import draw_gaps

    own = {canary.id: canary.text for canary in canaries if canary.planted}
    lines = text.split("\n")
    gaps = draw_gaps([canary for canary in canaries if canary.planted], len(lines), seed)
    for gap, name in reversed(gaps):
        lines.insert(gap, own[name])
    return "\n".join(lines)


def tokenizer_for(text: Corpus, canaries: Sequence[Canary], units: str) -> PreTrainedTokenizerFast:
    """A tokenizer that knows the text, the digits and the canaries' templates."""
    from leakage_tasks.models.char_tokenizer import char_tokenizer

    shown = [canary.text for canary in canaries]
    if units == CHARACTERS:
        return char_tokenizer([*text.alphabet, *string.digits, *"".join(shown)])
    from leakage_tasks.models.word_tokenizer import word_tokenizer

    values = {value for canary in canaries for slot in canary.space.slots for value in slot.values}
    return word_tokenizer(text.training, always=[*sorted(values), *" ".join(shown).split()])
