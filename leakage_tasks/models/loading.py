"""Loading of models, tokenizers and configurations from folders and hubs, under one security policy.

Weights are loaded from safetensors or with ``torch.load(weights_only=True)``. Code that comes with a model runs only if
the user sets ``trust_remote_code``. Errors are one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.core.log import first_line

if TYPE_CHECKING:
    import torch

DTYPES = ("auto", "float32", "bfloat16")
WITHOUT_DOUBLE = frozenset({"mps"})
"""Types of devices without double precision: Apple's GPUs."""
Failure = Callable[[str], LeakageError]
"""A function that returns the error to raise, given the library's reason as one line."""


def read_config(
    name: str | Path, *, trust_remote_code: bool = False, failure: Failure | None = None, **settings: Any
) -> Any:
    """Load the configuration of a model. Raises TargetError, or ``failure``'s error."""
    from transformers import AutoConfig

    with _raise_as(failure or partial(unreadable, "model", name)):
        return AutoConfig.from_pretrained(name, trust_remote_code=trust_remote_code, **settings)


def read_tokenizer(
    name: str | Path,
    *,
    revision: str = "main",
    trust_remote_code: bool = False,
    bare: bool = False,
    failure: Failure | None = None,
) -> Any:
    """Load a tokenizer.

    If its files are missing, transformers returns a tokenizer with special tokens only, which is an error by default.

    Args:
        name: Folder or hub name.
        revision: Revision on the hub.
        trust_remote_code: Run code that comes with the tokenizer.
        bare: Accept a tokenizer with special tokens only.
        failure: Returns the error to raise, instead of a TargetError.

    Returns:
        The tokenizer.

    Raises:
        TargetError: The tokenizer cannot be loaded.
    """
    from transformers import AutoTokenizer

    failure = failure or partial(unreadable, "tokenizer", name, more=", or name one with tokenizer=")
    with _raise_as(failure):
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    if not bare and is_bare(tokenizer):
        raise failure("its files are missing")
    return tokenizer


def is_bare(tokenizer: Any) -> bool:
    """Return True for a tokenizer with special tokens only, which transformers makes up if its files are missing.

    It reads every text as nothing or as unknown tokens. T5's has a sign for spaces in addition.
    """
    return len(tokenizer) <= len(set(tokenizer.all_special_tokens)) + 1


def read_model(
    kind: Any, name: str | Path, *, trust_remote_code: bool = False, failure: Failure | None = None, **settings: Any
) -> tuple[Any, list[str]]:
    """Load a model.

    Args:
        kind: One of transformers' Auto classes, or a model class.
        name: Folder or hub name.
        trust_remote_code: Run code that comes with the model.
        failure: Returns the error to raise, instead of a TargetError.
        settings: Other arguments of ``from_pretrained``.

    Returns:
        The model, and the names of its weights that the files do not contain.

    Raises:
        TargetError: The model cannot be loaded, or its files contain no weight of it.
    """
    failure = failure or partial(unreadable, "model", name)
    with _raise_as(failure):
        model, loaded = kind.from_pretrained(
            name, trust_remote_code=trust_remote_code, weights_only=True, output_loading_info=True, **settings
        )
    missing = loaded["missing_keys"]
    if all(weight in missing for weight, _ in model.named_parameters()):
        raise failure("its files contain no weight of this model")
    return model, sorted(missing)


def load_causal(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """Load a causal language model in evaluation mode.

    Args:
        name: Folder or hub name.
        device: Device; ``auto`` is the GPU if there is one.
        dtype: Precision; ``auto`` is the precision in which the model was saved.
        revision: Revision on the hub.
        trust_remote_code: Run code that comes with the model.

    Returns:
        The model on ``device``.

    Raises:
        OptionError: The device or precision is not available.
        TargetError: The model cannot be loaded or lacks weights.
    """
    from transformers import AutoModelForCausalLM

    from leakage_tasks.models import register

    target = resolve_device(device)
    if dtype not in DTYPES:
        raise OptionError(f"dtype={dtype!r}: expected {', '.join(DTYPES)}")
    register()
    passed: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": trust_remote_code}
    failure = partial(unreadable, "causal model", name)
    model, missing = read_model(AutoModelForCausalLM, name, dtype=dtype, failure=failure, **passed)
    if missing:
        raise TargetError(
            f"{name}: no trained causal language model ({missing[0]} is not in its weights): give a model that was "
            "saved as a causal language model"
        )
    return model.to(target).eval()


def resolve_device(name: str, in_double: str = "") -> torch.device:
    """Return the device ``name``; ``auto`` is the GPU if there is one.

    ``in_double`` names what computes in double precision, if anything does: a GPU without it is then not used. Raises
    OptionError if the device is not available, or lacks that precision.
    """
    import torch

    if name == "auto":
        best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return best if best is not None and (has_double(best) or not in_double) else torch.device("cpu")
    try:
        device = torch.empty(1, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = first_line(error)[:120]
        raise OptionError(
            f"device={name!r}: not available here ({reason}): use auto or cpu, or cuda if there is a GPU"
        ) from None
    if in_double:
        check_double(device, in_double)
    return device


def has_double(device: torch.device) -> bool:
    """Return True if a device computes in double precision."""
    return device.type not in WITHOUT_DOUBLE


def check_double(device: torch.device, what: str) -> None:
    """Raise OptionError if a device lacks the double precision in which ``what`` computes."""
    if not has_double(device):
        raise OptionError(
            f"device='{device.type}': has no double precision, in which {what} computes: use --device cpu or cuda"
        )


def unreadable(kind: str, name: Any, reason: str, *, more: str = "") -> TargetError:
    """Return the error for a model or tokenizer that another library could not load.

    Args:
        kind: ``model``, ``tokenizer`` or another noun for the message.
        name: Folder or hub name.
        reason: The library's reason.
        more: Another remedy, appended to the message.

    Returns:
        The error.
    """
    return TargetError(
        f"{name}: no {kind} can be loaded from there ({reason}): give the folder that save_pretrained wrote or a hub "
        f"name{more}"
    )


@contextmanager
def _raise_as(failure: Failure) -> Iterator[None]:
    """Convert any error to ``failure``'s error. Libraries raise all kinds for damaged folders and missing weights."""
    try:
        yield
    except Exception as error:
        raise failure(" ".join(first_line(error).split())[:200].rstrip(".: ")) from None
