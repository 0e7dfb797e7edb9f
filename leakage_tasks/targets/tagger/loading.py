"""NLU taggers from folders and hubs: what is no tagger, or has another's tokenizer, is refused in one line."""

from __future__ import annotations

from typing import Any

from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.nlu_inputs import UNKNOWN
from leakage_tasks.targets.loading import ModelSource
from leakage_tasks.targets.tagger.target import TaggerTarget


def load_tagger(pretrained: Any, **loading: Any) -> TaggerTarget:
    """An NLU tagger and its tokenizer, by folder, hub name or as objects, as a target.

    ``loading`` is for :class:`~leakage_tasks.targets.loading.ModelSource`. Raises TargetError for a model that is no
    trained NLU tagger, that cannot be loaded or that the tokenizer does not fit, and OptionError for a missing or
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
    return source.target_of(model, lambda size: TaggerTarget(model, tokenizer, device=source.device, batch_size=size))


def _check_words(config: Any, tokenizer: Any, name: str) -> None:
    """Raise TargetError unless the tokenizer has a number for each word, as the model has."""
    kind = type(tokenizer.backend_tokenizer.model).__name__ if getattr(tokenizer, "is_fast", False) else "slow"
    if kind != "WordLevel" or UNKNOWN not in tokenizer.get_vocab():
        differs = f"its tokenizer ({kind}) does not number whole words, of which {UNKNOWN} is one: name the one"
    elif len(tokenizer) != config.vocab_size:
        differs = f"the tokenizer has {len(tokenizer)} tokens, the model {config.vocab_size}: name the one"
    elif tokenizer.pad_token_id != config.pad_token_id:
        padding = f"token {tokenizer.pad_token_id}, the model's {config.pad_token_id}"
        differs = f"the tokenizer's padding is {padding}: name the tokenizer"
    else:
        return
    raise TargetError(f"{name}: {differs} the tagger was saved with, tokenizer=…")
