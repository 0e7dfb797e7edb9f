"""A joint intent classifier and slot tagger as a target: costs of intents, and of an intent with a canary's tags.

The loss is the one that "Canary Extraction in Natural Language Understanding Models" (Parikh, Dupuy and Gupta, 2022)
attacks by, section 4.1: the intent's cross-entropy and the CRF's, in bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.char_tokenizer import UNKNOWN
from leakage_tasks.models.tag_costs import tag_costs
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.devices import moved
from leakage_tasks.targets.label_model import LabelModel, label_bits
from leakage_tasks.targets.label_names import abbreviate, config_names
from leakage_tasks.targets.loading import ModelSource
from leakage_tasks.targets.relaxation import Reader, Relaxation, open_row
from leakage_tasks.targets.tagger.words import VocabularyCheck, WordIds
from leakage_tasks.targets.tokens.slot_tokens import Cut

WORDS_ON_CPU = 1 << 12
"""Maximum number of words in a batch on a CPU by default."""
ENUMERABLE = 1_000_000


class TaggerModel(LabelModel):
    """An :class:`~leakage_tasks.models.nlu_tagger.NLUTagger` and its tokenizer; ``labels`` are the intents.

    Probabilities are normalised in float64 for every precision of the model. With a character layer, token rows contain
    ids after the vocabulary for unknown words. ``settings`` are arguments of
    :class:`~leakage_tasks.targets.batches.RowModel`.
    """

    kind = "intent"
    remedy = "use one of these, or a model trained with that intent"

    def __init__(self, model: Any, tokenizer: Any, **settings: Any) -> None:
        super().__init__(model, tokenizer, int(model.config.pad_token_id), tokens=WORDS_ON_CPU, **settings)
        self.labels = tuple(config_names(model.config))
        self.words = WordIds(tokenizer, model.config)
        self._tags = {tag: index for index, tag in enumerate(model.config.tags)}
        self._values = VocabularyCheck(self.words, bool(model.config.characters))

    def length(self, text: str) -> int:
        """Return the number of words of a text."""
        return len(text.split())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the word ids of each text; words are separated by white space."""
        return [self.words.of(text) for text in texts]

    def _cut(self, text: str) -> Cut:
        return self.words.cut(text)

    def tags_of(self, canary: Canary) -> list[int]:
        """Return the tag ids for the part of a canary's text that the attacker knows; empty without tags.

        Raises TargetError unless each word has one tag and the model knows every tag.
        """
        if canary.tags is None:
            return []
        words = len(canary.text.split())
        if len(canary.tags) != words:
            raise TargetError(
                f"has {len(canary.tags)} tags for the {words} words of its text: give the canary one tag for each word"
            )
        if any(len({len(value.split()) for value in slot.values}) > 1 for slot in canary.space.slots):
            raise TargetError(
                "has tags and values of different numbers of words, which no tags fit: use values with equal numbers "
                "of words"
            )
        for tag in canary.tags:
            if tag not in self._tags:
                raise TargetError(
                    f"the model knows no tag {tag!r} (it has {abbreviate(list(self._tags))}): use these, or a model "
                    "trained with that tag"
                )
        whole, part = canary.space.pieces[0], canary.attack_space.pieces[0]
        unknown = words - len(canary.text[len(whole) - len(part) :].split())
        known = len(canary.attack_space.fill(canary.secret).split())
        return [self._tags[tag] for tag in canary.tags[unknown : unknown + known]]

    # -- the model's forward pass ----------------------------------------------------------------------------

    def embed(self, ids: Tensor) -> Tensor:
        """Return the features ``[…, features]`` of word ids ``[…]``, on the model's device."""
        distinct, places = ids.unique(return_inverse=True)
        inputs = {name: moved(part, self.device) for name, part in self.words.inputs(distinct).items()}
        return self.model.embed(**inputs)[0][moved(places, self.device)]

    def bits(self, embedded: Tensor, mask: Tensor, tags: Tensor | None = None) -> Tensor:
        """Return −log2 P(intent | row) ``[n, intents]``, float64.

        With ``tags`` ``[n, length]`` it is −log2 P(intent, tags | row), except for rows with negative tags.
        """
        logits, emissions = self.model.read(embedded, mask.bool())
        intents = label_bits(logits)
        if tags is None:
            return intents
        spent = tag_costs(self.model.crf, emissions, mask.bool(), tags.clamp(min=0)) / LN2
        return intents + torch.where(tags[:, 0] < 0, 0.0, spent)[:, None]


class TaggerTarget(TaggerModel):
    """A tagger that scores intents; implements ``ScoresLabels`` for intents alone, and ``ReadsTags``."""

    def label_costs(self, rows: IntArray | Sequence[Sequence[int]]) -> FloatArray:
        """Return −log2 P(intent | row) in bits, ``[n, intents]``. Raises TargetError for a row that is too long."""
        return self.row_costs(rows, len(self.labels), self.row_bits)

    def row_bits(self, ids: Tensor, mask: Tensor, tags: Tensor | None = None) -> Tensor:
        """Return :meth:`bits` of word ids ``[n, length]``; ``tags`` ``[n, any]`` may be longer or shorter."""
        if tags is not None:
            # A row that is longer than its tags is padded, which the mask leaves out.
            tags = moved(pad(tags, (0, ids.shape[1] - tags.shape[1])), self.device)
        return self.bits(self.embed(ids), moved(mask, self.device), tags)

    def tagged(self, canary: Canary) -> TaggedTarget:
        """Return a target for the canary's tags; without tags it scores the intent alone.

        Raises TargetError for unknown tags, or unknown words that contain a slot; warns of unknown values.
        """
        self._values.check(canary)
        return TaggedTarget(self, self.tags_of(canary))


class TaggedTarget(TaggerModel):
    """A tagger that also scores one canary's tags: costs are −log2 P(intent, tags | row) in bits.

    Implements ``ScoresLabels`` and ``RelaxesTokens``. For a partial row, the tags are cut to the row's length. Canaries
    with at most ``budget`` fillings are enumerated unless the user sets another budget.
    """

    budget = ENUMERABLE

    def __init__(self, tagger: TaggerTarget, tags: Sequence[int]) -> None:
        vars(self).update(vars(tagger))
        self._tagger, self._canary_tags = tagger, np.array(tags, dtype=np.int64)

    def label_costs(self, rows: IntArray | Sequence[Sequence[int]]) -> FloatArray:
        """Return −log2 P(intent, tags | row) in bits, ``[n, intents]``. Raises TargetError for a row too long."""
        if not len(self._canary_tags):
            return self._tagger.label_costs(rows)
        tags = np.tile(self._canary_tags, (len(rows), 1))
        return self._tagger.row_costs(rows, len(self.labels), self._tagger.row_bits, tags)

    def relaxed(self, canaries: Sequence[Canary], double: bool) -> Relaxation:
        remedy = "train it with leakage train-nlu --canaries FILE"
        rows = [open_row(canary, self.rows(canary.attack_space), self.words.known, remedy) for canary in canaries]
        return Relaxation(rows, _TaggerReader(self._tagger, canaries, max(len(row.tokens) for row in rows), double))


class _TaggerReader(Reader[TaggerTarget]):
    """The reader of a relaxation for a tagger, with the tag ids of each canary."""

    def __init__(self, tagger: TaggerTarget, canaries: Sequence[Canary], longest: int, double: bool) -> None:
        super().__init__(tagger, canaries, double)
        for lstm in self._target.model.lstms:
            # cuDNN computes gradients only in training mode; these layers have no dropout.
            lstm.train().flatten_parameters()
        tags = [tagger.tags_of(canary) for canary in canaries]
        self._tags = torch.tensor([tag + [-1] * (longest - len(tag)) for tag in tags], device=tagger.device)
        self.soft = int(tagger.model.config.embedding_size)

    def embed(self, tokens: Tensor) -> Tensor:
        return self._target.embed(tokens)

    def costs(self, which: Tensor, tokens: Tensor, mask: Tensor, embedded: Tensor) -> Tensor:
        bits = self._target.bits(embedded, mask, self._tags[which])
        return bits.gather(1, self._labels[which][:, None])[:, 0]


def load_tagger(pretrained: Any, **loading: Any) -> TaggerTarget:
    """Load an NLU tagger and its tokenizer, by folder, hub name or as objects, as a target.

    ``loading`` are arguments of :class:`~leakage_tasks.targets.loading.ModelSource`. Raises TargetError for a model
    that is no trained NLU tagger, cannot be loaded or does not fit the tokenizer, and OptionError for a missing or
    unusable argument.
    """
    from leakage_tasks.models import register
    from leakage_tasks.models.nlu_tagger import NLUTagger

    register()
    source = ModelSource(pretrained, **loading)
    kind = getattr(source.config, "model_type", None)
    if kind != "nlu-tagger":
        raise TargetError(
            f"{source.name}: a {kind} model, no NLU tagger: give the folder that 'leakage train-nlu' wrote, or use "
            "--model classifier-scorer for other text classifiers"
        )
    model, missing = source.read_model(NLUTagger)
    if missing:
        raise source.untrained("NLU tagger", missing[-1], "give the folder that was saved after training")
    tokenizer = source.read_tokenizer()
    _check_words(model.config, tokenizer, source.tokenizer_name)
    return source.target_of(TaggerTarget, model, tokenizer)


def _check_words(config: Any, tokenizer: Any, name: str) -> None:
    """Raise TargetError unless the tokenizer gives ids to whole words, as many as the model knows."""
    kind = type(tokenizer.backend_tokenizer.model).__name__ if getattr(tokenizer, "is_fast", False) else "slow"
    if kind != "WordLevel" or UNKNOWN not in tokenizer.get_vocab():
        differs = f"its tokenizer ({kind}) has no ids for whole words and {UNKNOWN}: pass the tokenizer"
    elif len(tokenizer) != config.vocab_size:
        differs = f"the tokenizer has {len(tokenizer)} tokens, but the model {config.vocab_size}: pass the tokenizer"
    elif tokenizer.pad_token_id != config.pad_token_id:
        padding = f"token {tokenizer.pad_token_id}, but the model's is {config.pad_token_id}"
        differs = f"the tokenizer's padding is {padding}: pass the tokenizer"
    else:
        return
    raise TargetError(f"{name}: {differs} that was saved with the tagger as tokenizer=…")
