"""The base of classifiers and taggers as targets: named classes, and token rows of a space's fillings."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import RowModel
from leakage_tasks.targets.devices import in_double
from leakage_tasks.targets.label_names import abbreviate
from leakage_tasks.targets.tokens.slot_tokens import Cut, Segments, SpaceRows


class LabelModel(RowModel):
    """A model that assigns one of its classes to a token row; ``labels`` are the names of the classes in order.

    ``batch_size`` counts texts of full length; shorter texts make larger batches.
    """

    kind = "label"
    """The word for a class in messages."""
    remedy = "name its classes with labels=FILE in --model_args, or use one of these"
    """The remedy in messages about a class that the model does not know."""

    labels: tuple[str, ...]

    @cached_property
    def _segments(self) -> dict[Any, Segments | None]:
        """Return the cache of each alphabet's tokens, which spaces share."""
        return {}

    def place_of(self, label: str | None) -> int:
        if label is None:
            raise TargetError(
                f"has no {self.kind}, which attacks on classifiers need: make canaries with --label (natural secrets: "
                'add "label" to their lines of the manifest) and pass canaries=FILE'
            )
        if label not in self.labels:
            raise TargetError(
                f"the model knows no {self.kind} {label!r} (it has {abbreviate(self.labels)}): {self.remedy}"
            )
        return self.labels.index(label)

    def rows(self, space: Space) -> SpaceRows:
        return SpaceRows(space, self.encode, self._cut, self._segments)

    def _cut(self, text: str) -> Cut | None:
        """Return a text's tokens and the character span of each, or None if the tokenizer reports no spans."""
        if not self.tokenizer.is_fast:
            return None
        cut = self.tokenizer(text, return_offsets_mapping=True, verbose=False)
        return cut["input_ids"], cut["offset_mapping"]


def label_bits(logits: Tensor) -> Tensor:
    """Return −log2 of the probabilities of ``logits`` ``[n, labels]``, in double precision."""
    return in_double(logits).log_softmax(-1) / -LN2
