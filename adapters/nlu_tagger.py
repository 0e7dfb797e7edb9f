"""``--model nlu-tagger --model_args pretrained=FOLDER``: an intent and slot tagger as a harness model.

The log-likelihood of an intent after an utterance is log P(intent | utterance). Multiple-choice tasks over intents
therefore measure its accuracy. Attacks also use the canary's slot tags.
"""

from __future__ import annotations

from typing import Any

from adapters.base import LOADING
from adapters.classifier_scorer import LabelScorerLM
from leakage_tasks.models.loading import check_double
from leakage_tasks.targets.tagger.target import TaggerTarget, load_tagger


class NLUTaggerLM(LabelScorerLM):
    """An NLU tagger written by ``leakage train-nlu``; ``classifier`` is its target.

    Takes the arguments of :class:`~adapters.base.LocalLM` and ``tokenizer``. Raises OptionError for an unknown or
    invalid option and TargetError if the model cannot be loaded.
    """

    OPTIONS = LOADING
    classifier: TaggerTarget

    def __init__(self, pretrained: Any, tokenizer: Any = None, **options: Any) -> None:
        super().__init__(pretrained, **options)
        check_double(self.device, "a tagger")
        self.classifier = load_tagger(pretrained, tokenizer=tokenizer, **self._loading)

    def get_model_info(self) -> dict[str, Any]:
        """Return information about the model for a results file, with the names of intents and slot tags."""
        return {**super().get_model_info(), "model_tags": list(self.classifier.model.config.tags)}
