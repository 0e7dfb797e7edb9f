"""What classifiers and taggers share as targets: classes with names, and token rows of a space's fillings."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import RowModel
from leakage_tasks.targets.label_names import some_of
from leakage_tasks.targets.tokens.slot_tokens import Cut, Segments, SpaceRows


class LabelModel(RowModel):
    """A model that gives token rows one of some ``labels``, its classes' names in order.

    ``batch_size`` counts texts of full length; shorter ones make larger batches.
    """

    kind = "label"
    """What messages call a class."""
    remedy = "name its classes with labels=FILE in --model_args, or use one of these"
    """What to do about a class that the model does not know."""

    labels: tuple[str, ...]

    @cached_property
    def _segments(self) -> dict[Any, Segments | None]:
        """Tokens of each alphabet's values, which spaces share."""
        return {}

    def place_of(self, label: str | None) -> int:
        """See :class:`~leakage_tasks.targets.protocols.ScoresLabels`."""
        if label is None:
            raise TargetError(
                f"has no {self.kind}, which attacks on classifiers need: make canaries with --label and pass "
                "canaries=FILE"
            )
        if label not in self.labels:
            raise TargetError(
                f"the model knows no {self.kind} {label!r} (it has {some_of(self.labels)}): {self.remedy}"
            )
        return self.labels.index(label)

    def rows(self, space: Space) -> SpaceRows:
        """See :class:`~leakage_tasks.targets.protocols.ScoresLabels`."""
        return SpaceRows(space, self.encode, self._cut, self._segments)

    def _cut(self, text: str) -> Cut | None:
        """A text's tokens and the characters each stands for, None where the tokenizer does not say."""
        if not self.tokenizer.is_fast:
            return None
        cut = self.tokenizer(text, return_offsets_mapping=True, verbose=False)
        return cut["input_ids"], cut["offset_mapping"]


def label_bits(logits: Tensor) -> Tensor:
    """−log2 of the probabilities that ``logits`` ``[n, labels]`` give, float64."""
    return logits.double().log_softmax(-1) / -LN2
