"""``--model nlu-tagger --model_args pretrained=FOLDER``: an intent and slot tagger as a harness model.

The log-likelihood of an intent after an utterance is log P(intent | utterance), so that tasks whose answers are names
of intents measure its accuracy; the attacks take the canary's tags as well.
"""

from __future__ import annotations

from typing import Any

import torch

from adapters.classifier_scorer import LabelScorerLM
from leakage_tasks.targets.batches import texts_at_once
from leakage_tasks.targets.tagger.loading import load_tagger
from leakage_tasks.targets.tagger.target import TaggerTarget


class NLUTaggerLM(LabelScorerLM):
    """An NLU tagger as ``leakage train-nlu`` writes it; ``classifier`` is its target.

    Takes the arguments of :func:`~leakage_tasks.targets.tagger.loading.load_tagger`, ``batch_size`` and ``device`` as
    :class:`LabelScorerLM` does. Raises OptionError and TargetError.
    """

    classifier: TaggerTarget

    def __init__(
        self,
        pretrained: Any,
        tokenizer: Any = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        dtype: str | torch.dtype = "auto",
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(pretrained, revision, batch_size, device)
        self.classifier = load_tagger(
            pretrained,
            tokenizer=tokenizer,
            revision=revision,
            trust_remote_code=trust_remote_code,
            dtype=dtype,
            device=self._device,
            batch_size=texts_at_once(batch_size),
            max_batch_size=max_batch_size,
        )

    def get_model_info(self) -> dict[str, Any]:
        """See :class:`LabelScorerLM`; with the names of the slot tags."""
        return {**super().get_model_info(), "model_tags": list(self.classifier.model.config.tags)}
