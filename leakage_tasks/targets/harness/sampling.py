"""The generation settings that make harness models draw by a scheme and do nothing else."""

from __future__ import annotations

from typing import Any

from lm_eval.api.model import CachingLM

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

EXTRAS: dict[str, dict[str, Any]] = {
    "HFLM": {"top_k": 0},
    "VLLM": {"top_k": -1},
    "SGLangLM": {"top_k": -1},
    "SGLANGGENERATEAPI": {"top_k": -1},
    "OpenAICompletionsAPI": {"seed": None},
    "LocalCompletionsAPI": {"seed": None, "top_k": -1},
    "TemplateAPI": {"seed": None},
}
"""What a class of models must be told besides, by name, since importing it may take a package that is not there.

``top_k`` is how it is told to keep every token: left out, a server takes the one of the model's generation_config.
The API models send the same ``seed`` with every request, and so would get the same answer every time; None undoes that.
"""
SEEDED = frozenset({"VLLM"})
"""Models that take a seed for each request without answering each by itself for it."""
CUT_OFF = {
    "GGUFLM": "decodes greedily whatever it is asked and trims white space off what it returns",
    "TextSynthLM": "decodes greedily whatever it is asked",
}
"""Models that cannot be drawn from, and why."""
SPOKEN_ALONE = frozenset({"HFLM"})
"""Models that turn what they generate into text without what stands before it."""


def kinds(lm: Any) -> tuple[str, ...]:
    """Names of the classes of a model, nearest first; a cache around it is looked through."""
    while isinstance(lm, CachingLM):
        lm = lm.lm
    return tuple(each.__name__ for each in type(lm).__mro__)


def check_decoding(lm: Any, scheme: DecodingConfig) -> None:
    """Raise OptionError for a scheme that text does not allow, TargetError for a model that cannot be drawn from."""
    name = kinds(lm)[0]
    if scheme.decoding == "beam":
        raise OptionError(
            f"decoding=beam needs next-token probabilities and {name} takes and gives text: use decoding=sample or "
            "greedy, or --model hf"
        )
    for kind in kinds(lm):
        if scheme.decoding == "sample" and kind in CUT_OFF:
            raise TargetError(f"{name} {CUT_OFF[kind]}: serve the model for --model local-completions, or use hf")


def generation_settings(lm: Any, scheme: DecodingConfig, length: int, uniform: float) -> dict[str, Any]:
    """Settings of one ``generate_until`` request for ``length`` tokens; ``uniform`` in [0, 1) seeds those that can be.

    ``until`` is empty: the harness adds the end of text to it for most models, and there is no way around that.
    """
    extras = next((EXTRAS[kind] for kind in kinds(lm) if kind in EXTRAS), {})
    if scheme.decoding == "greedy":
        seed = {"seed": None} if "seed" in extras else {}
        return {"until": [], "max_gen_toks": length, "do_sample": False, "temperature": 0.0, **seed}
    settings = {
        "until": [],
        "max_gen_toks": length,
        "do_sample": True,
        "temperature": scheme.temperature,
        "top_p": scheme.top_p,
        **extras,
    }
    if scheme.top_k:
        settings["top_k"] = scheme.top_k
    if SEEDED.intersection(kinds(lm)):
        settings["seed"] = int(uniform * (1 << 53))
    return settings
