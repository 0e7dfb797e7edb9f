"""``--model soft-prompt --model_args pretrained=BASE,prompt=FOLDER``: a causal model with a tuned soft prompt.

The prompt is a PEFT prompt-tuning adapter (Lester et al. 2021): ``num_virtual_tokens`` vectors of the base model's
hidden size before every input. Its configuration is compared with the base model's before any weight is loaded. If a
record of the tuning exists, the loaded weights are compared with the weights of the tuning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.option import Option
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.models.loading import read_config, unreadable
from leakage_tasks.training.prompt.files import CONFIG, RECORD, WEIGHTS
from leakage_tasks.training.prompt.fit import comparable, model_hash

PICKLE = "adapter_model.bin"


class SoftPromptLM(HFLM):
    """An ``HFLM`` with a soft prompt before its inputs.

    It takes all arguments of ``HFLM`` except ``peft`` and ``delta``. ``max_length`` excludes the prompt. Raises
    OptionError for incompatible arguments and TargetError for a prompt that does not belong to the base model.
    """

    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("pretrained", str, None, "the base model: a folder or hub name", required=True),
        Option("prompt", str, None, "the folder of a PEFT prompt-tuning adapter", required=True),
    )
    """Options of ``--model_args`` in addition to the options of ``--model hf``, except ``peft`` and ``delta``."""

    def __init__(self, pretrained: str, prompt: str | None = None, **kwargs: Any) -> None:
        if prompt is None:
            raise OptionError("soft-prompt: prompt= is missing: give the folder of a PEFT prompt-tuning adapter")
        # The harness converts a name that looks like a number to a number.
        pretrained, prompt = (str(name) if isinstance(name, (int, float)) else name for name in (pretrained, prompt))
        if not isinstance(pretrained, str):
            raise OptionError("soft-prompt: pretrained= must be a model's name or folder, not a model in memory")
        for name in ("peft", "delta"):
            if kwargs.get(name):
                raise OptionError(f"soft-prompt: {name}= does not go with prompt=: leave it out, or use --model hf")
        self.virtual_tokens = check_prompt(Path(prompt), pretrained, _hidden_size(pretrained, kwargs))
        super().__init__(pretrained=pretrained, peft=prompt, **kwargs)
        _compare_weights(Path(prompt), pretrained, self.model)
        self._max_length: Any = self._max_length_after_prompt(kwargs.get("max_length"))

    @property
    def weights(self) -> Mapping[str, Any]:
        """The model with its prompt, whose weights identify the model."""
        return {"model": self.model}

    def _max_length_after_prompt(self, requested: int | None) -> int:
        self._max_length = None
        context = super().max_length
        if self.virtual_tokens >= context:
            raise TargetError(
                f"soft-prompt: {self.virtual_tokens} virtual tokens fill the model's whole context of {context}: use a "
                "shorter prompt"
            )
        return min(requested or context, context - self.virtual_tokens)


def check_prompt(folder: Path, base: str, hidden_size: int) -> int:
    """Return the number of virtual tokens of the prompt in ``folder``, made for the model ``base``.

    Reads the adapter's configuration and the header of its weights. Raises TargetError if the folder holds no
    prompt-tuning adapter for a causal model, if its weights are a pickle, or if it was made for another model.
    """
    config = _read_config(folder)
    kind, task = config.get("peft_type"), config.get("task_type")
    if (kind, task) != ("PROMPT_TUNING", "CAUSAL_LM"):
        raise TargetError(
            f"{folder / CONFIG}: peft_type and task_type are {kind} and {task}, not PROMPT_TUNING and CAUSAL_LM: load "
            "other adapters with --model hf and peft="
        )
    made_for = config.get("base_model_name_or_path")
    if made_for is not None and (not isinstance(made_for, str) or "\0" in made_for):
        raise TargetError(
            f"{folder / CONFIG}: base_model_name_or_path is not the name of a model: save the adapter again"
        )
    if made_for and not _same_model(made_for, base):
        raise TargetError(
            f"{folder / CONFIG}: the prompt was made for {made_for!r}, not for {base!r}: pass {made_for!r} as "
            "pretrained=, or correct base_model_name_or_path if both are the same model"
        )
    shape = _prompt_shape(folder)
    if shape[-1] != hidden_size:
        raise TargetError(
            f"{folder / WEIGHTS}: the prompt's vectors have {shape[-1]} dimensions, the hidden size of {base!r} is "
            f"{hidden_size}: use a prompt tuned on this model"
        )
    if shape != [config.get("num_virtual_tokens"), config.get("token_dim")]:
        raise TargetError(
            f"{folder / WEIGHTS}: prompt_embeddings has shape {shape}, {CONFIG} says "
            f"[{config.get('num_virtual_tokens')}, {config.get('token_dim')}]: save the adapter again"
        )
    return shape[0]


def _hidden_size(pretrained: str, kwargs: dict[str, Any]) -> int:
    passed = {name: kwargs[name] for name in ("revision", "subfolder") if kwargs.get(name)}
    trust_remote_code = bool(kwargs.get("trust_remote_code"))
    failure = partial(unreadable, "model", f"soft-prompt: pretrained={pretrained}")
    config = read_config(pretrained, trust_remote_code=trust_remote_code, failure=failure, **passed).get_text_config()
    # In OPT the token embeddings may have another size than the hidden states.
    return int(getattr(config, "word_embed_proj_dim", None) or config.hidden_size)


def _compare_weights(folder: Path, pretrained: str, model: Any) -> None:
    """Warn if the prompt was tuned on other weights.

    This is no error, because the user may want to test a fine-tuned version of the model.
    """
    base = model.get_base_model()
    tuned_on = _tuned_on(folder)
    if tuned_on is not None and comparable(base) and model_hash(base) != tuned_on:
        warn_once(
            f"{folder}: the prompt was tuned on other weights than {pretrained!r}, so it may extract less from this "
            "model: tune it again on this model, unless you want to measure this difference"
        )


def _tuned_on(folder: Path) -> str | None:
    """Return the hash of the weights in the record of the tuning; None without a record."""
    try:
        return str(parse_json(read_text(folder / RECORD))["hashes"]["model"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = parse_json(read_text(folder / CONFIG))
    except FileNotFoundError:
        raise TargetError(
            f"{folder}: no {CONFIG} there: prompt= takes the folder that save_pretrained wrote a PEFT adapter to"
        ) from None
    except (OSError, ValueError) as error:
        raise TargetError(f"{folder / CONFIG}: cannot be read ({error}): save the adapter again") from None
    if not isinstance(config, dict):
        raise TargetError(f"{folder / CONFIG}: not a JSON object: save the adapter again")
    return config


def _same_model(made_for: str, base: str) -> bool:
    # A model folder may have moved since the prompt was tuned, so the last parts of the paths are compared.
    try:
        return Path(made_for).name == Path(base).name or Path(made_for).resolve() == Path(base).resolve()
    except (OSError, RuntimeError, ValueError):  # the configuration may contain a string that is not a path
        return False


def _prompt_shape(folder: Path) -> list[int]:
    from safetensors import SafetensorError, safe_open

    if not (folder / WEIGHTS).is_file():
        problem = f"only {PICKLE}, and pickles are never loaded" if (folder / PICKLE).exists() else "no weights there"
        raise TargetError(f"{folder}: no {WEIGHTS} ({problem}): save the adapter again with safe_serialization=True")
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as tensors:
            shape = tensors.get_slice("prompt_embeddings").get_shape()
    except SafetensorError as error:
        raise TargetError(f"{folder / WEIGHTS}: cannot be read ({error}): save the adapter again") from None
    if len(shape) != 2:
        raise TargetError(f"{folder / WEIGHTS}: prompt_embeddings has shape {shape}, not two axes: save it again")
    return [int(size) for size in shape]
