"""``--model nlu-tagger --model_args pretrained=FOLDER``: an intent and slot tagger as a harness model.

The log-likelihood of an intent after an utterance is log P(intent | utterance), so that tasks whose answers are names
of intents measure its accuracy; the attacks take the canary's tags as well.
"""

from __future__ import annotations

from typing import Any

from adapters.base import LOADING
from adapters.classifier_scorer import LabelScorerLM
from leakage_tasks.targets.tagger.target import TaggerTarget, load_tagger


class NLUTaggerLM(LabelScorerLM):
    """An NLU tagger as ``leakage train-nlu`` writes it; ``classifier`` is its target.

    Takes the arguments of :func:`~leakage_tasks.targets.tagger.target.load_tagger`, ``batch_size`` and ``device`` as
    :class:`LabelScorerLM` does. Raises OptionError and TargetError.
    """

    OPTIONS = LOADING
    classifier: TaggerTarget

    def __init__(self, pretrained: Any, tokenizer: Any = None, **options: Any) -> None:
        super().__init__(pretrained, **options)
        self.classifier = load_tagger(pretrained, tokenizer=tokenizer, **self._loading)

    def get_model_info(self) -> dict[str, Any]:
        """See :class:`LabelScorerLM`; with the names of the slot tags."""
        return {**super().get_model_info(), "model_tags": list(self.classifier.model.config.tags)}
