"""The other models of suffix extraction: a second model for comparison, and the model before fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.target import CausalSuffixes, load_causal_target

CHECK_PAIRS = 8
"""Number of pairs whose text is encoded to compare two tokenizers."""


def comparing_model(lm: LM, name: str, target: DrawsSuffixes, pairs: Sequence[Pair]) -> CausalSuffixes:
    """Return the second model of the confidence ``comparing_lm``. Raises OptionError for a model with another
    tokenizer."""
    second = _loaded(lm, "comparing_lm", name)
    if (second.vocabulary or 0) < (target.vocabulary or 0):
        raise OptionError(
            f"comparing_lm={name} knows {second.vocabulary} tokens, the model itself {target.vocabulary}: give one "
            "with the same tokenizer"
        )
    _check_reads_alike(f"comparing_lm={name}", second, target, pairs)
    return second


def untuned_model(lm: LM, name: str | None, target: DrawsSuffixes, pairs: Sequence[Pair]) -> CausalSuffixes | None:
    """Return the model before fine-tuning: the named model, else the current model without its adapter.

    None if neither exists. A soft prompt is no adapter, because it is tuned for the attack. Raises OptionError for a
    model with another tokenizer, or if the current model takes only text.
    """
    if not isinstance(target, CausalSuffixes):
        if name is not None:
            raise OptionError(
                f"untuned={name} needs a model that takes token ids: use --model hf, or leave the option out"
            )
        return None
    sampler = target.sampler
    if name is None:
        base = None if has_soft_prompt(sampler.target.model) else sampler.target.before_fine_tuning()
        return None if base is None else CausalSuffixes(base, sampler.before)
    model = _loaded(lm, "untuned", name, sampler.before)
    # A fine-tune may have added tokens; a pair with such a token is refused by its number.
    _check_reads_alike(f"untuned={name}", model, target, pairs)
    return model


def has_soft_prompt(model: Any) -> bool:
    """Return True if the model puts tuned vectors before the tokens that it reads."""
    prompt = getattr(model, "active_peft_config", None)
    return prompt is not None and bool(prompt.is_prompt_learning)


def _loaded(lm: LM, option: str, name: str, before: Sequence[int] = ()) -> CausalSuffixes:
    return CausalSuffixes(load_beside(lm, option, name), before)


def load_beside(lm: LM, option: str, name: str) -> CausalTarget:
    """Return the model that an option names, on the device and in the precision of the current model."""
    dtype = lm.model.dtype if isinstance(lm, HFLM) else None
    return load_causal_target(name, f"{option}={name}", getattr(lm, "device", "cpu"), None, dtype)


def _check_reads_alike(option: str, second: CausalSuffixes, target: DrawsSuffixes, pairs: Sequence[Pair]) -> None:
    some = [(*pair.prefix, *pair.suffix) for pair in pairs[:: max(1, len(pairs) // CHECK_PAIRS)]]
    # Pairs with tokens that a model does not know are refused later, by name.
    known = min(size for size in (target.vocabulary, second.vocabulary) if size)
    rows = [row for row in some if max(row) < known]
    if second.decode(rows) != target.decode(rows):
        raise OptionError(f"{option} reads these token ids as other text: give one with the same tokenizer")
