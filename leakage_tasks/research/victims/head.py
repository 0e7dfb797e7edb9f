"""A masked-language head for a classifier's encoder, trained on a public text.

Mix and Match (001), section 4.3.1, advises to train the generation head alone, with the encoder frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.data import Columns, format_of
from leakage_tasks.models.frankenstein import fresh_head
from leakage_tasks.research.victims.masked_lm import MaskedTraining, train_masked_lm

WORDS = 80
"""Words of a text to learn from at once."""
TOKENS = 128


def train_head(
    classifier: Any,
    tokenizer: Any,
    text: str | Path,
    *,
    base: str | Path | None = None,
    epochs: int = 3,
    learning_rate: float = 1e-3,
    seed: int = 0,
    room: int | None = None,
    trust_remote_code: bool = False,
) -> MaskedTraining:
    """The classifier's encoder, bit for bit as it was, under a head trained to fill masks in the file ``text``.

    The head starts as that of the masked language model ``base``, or at random. ``room`` is the most tokens the
    encoder reads. Raises TargetError as :func:`~leakage_tasks.models.frankenstein.fresh_head`, OptionError for a
    tokenizer without mask token or a file without text, and PlantingError for a file that cannot be read.
    """
    texts = list(public_texts(Path(text)))
    if not texts:
        raise OptionError(f"text={text}: holds no text: give a public text to train the head on")
    loading = {"tokenizer": tokenizer, "seed": seed, "trust_remote_code": trust_remote_code}
    model = fresh_head(classifier, base, **loading)
    return train_masked_lm(
        model,
        tokenizer,
        texts,
        epochs=epochs,
        learning_rate=learning_rate,
        max_length=min(TOKENS, room or TOKENS),
        seed=seed,
        device=model.device,
    )


def public_texts(path: Path) -> Iterator[str]:
    """The texts of a file, cut every 80 words: a ``.txt`` as one running text, of other kinds the column ``text``.

    Raises PlantingError for a file of no known kind or one that cannot be read.
    """
    kind, wanted = format_of(path), Columns()
    rows = kind.texts(path, kind.survey(path, wanted), wanted)
    texts = (turn for turns in rows for turn in turns)
    for whole in ["".join(texts)] if kind.running else texts:
        words = iter(whole.split())
        while piece := list(islice(words, WORDS)):
            yield " ".join(piece)
