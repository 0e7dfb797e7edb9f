"""Models, tokenizers and configurations from folders and hubs, all by one policy.

Weights come from safetensors, or from a file that ``torch.load`` takes with ``weights_only``. Code that comes with a
model is run where the user's own ``trust_remote_code`` asks for it, and nowhere else. What fails is one line.
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
Failure = Callable[[str], LeakageError]
"""Makes the error to raise of the reason that the library gives, in one line."""


def read_config(
    name: str | Path, *, trust_remote_code: bool = False, failure: Failure | None = None, **settings: Any
) -> Any:
    """The configuration of a model. Raises TargetError, or ``failure``'s error."""
    from transformers import AutoConfig

    with _told_by(failure or partial(unreadable, "model", name)):
        return AutoConfig.from_pretrained(name, trust_remote_code=trust_remote_code, **settings)


def read_tokenizer(
    name: str | Path,
    *,
    revision: str = "main",
    trust_remote_code: bool = False,
    bare: bool = False,
    failure: Failure | None = None,
) -> Any:
    """A tokenizer. Raises TargetError, or ``failure``'s error, for a missing one too unless ``bare``.

    Where the files are missing, transformers makes one up that knows nothing but special tokens: a ``bare`` one.
    """
    from transformers import AutoTokenizer

    failure = failure or partial(unreadable, "tokenizer", name, more=", or name one with tokenizer=")
    with _told_by(failure):
        found = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    if not bare and len(found) <= len(set(found.all_special_tokens)):
        raise failure("its files are missing")
    return found


def read_model(
    kind: Any, name: str | Path, *, trust_remote_code: bool = False, failure: Failure | None = None, **settings: Any
) -> tuple[Any, list[str]]:
    """A model of ``kind``, one of transformers' Auto classes or a class of its own, and the names of weights it lacks.

    Raises TargetError, or ``failure``'s error, for one that cannot be loaded, and for one of which no weight is there.
    """
    failure = failure or partial(unreadable, "model", name)
    with _told_by(failure):
        model, loaded = kind.from_pretrained(
            name, trust_remote_code=trust_remote_code, weights_only=True, output_loading_info=True, **settings
        )
    missing = loaded["missing_keys"]
    if all(weight in missing for weight, _ in model.named_parameters()):
        raise failure("its files hold none of its weights")
    return model, sorted(missing)


def load_causal(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """The causal language model called ``name``, in evaluation mode on ``device``.

    ``dtype`` ``auto`` is the precision it was saved in. Raises OptionError for a device or precision there is not, and
    TargetError for a model that cannot be loaded or lacks weights.
    """
    from transformers import AutoModelForCausalLM

    from leakage_tasks.models import register

    place = device_called(device)
    if dtype not in DTYPES:
        raise OptionError(f"dtype={dtype!r}: expected {', '.join(DTYPES)}")
    register()
    passed: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": trust_remote_code}
    failure = partial(unreadable, "causal model", name)
    model, missing = read_model(AutoModelForCausalLM, name, dtype=dtype, failure=failure, **passed)
    if missing:
        raise TargetError(
            f"{name}: no trained causal language model ({missing[0]} is not in its weights): give one that was saved "
            "as such"
        )
    return model.to(place).eval()


def device_called(name: str) -> torch.device:
    """The device ``name``; ``auto`` is the GPU where there is one. Raises OptionError for one there is not."""
    import torch

    if name == "auto":
        best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return best or torch.device("cpu")
    try:
        return torch.empty(1, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = first_line(error)[:120]
        raise OptionError(
            f"device={name!r}: not to be had here ({reason}): use auto, cpu, or cuda where there is one"
        ) from None


def unreadable(what: str, name: Any, reason: str, *, more: str = "") -> TargetError:
    """The error for a model or tokenizer that another library could not load."""
    return TargetError(
        f"{name}: no {what} can be loaded from there ({reason}): give the folder that save_pretrained wrote or a hub "
        f"name{more}"
    )


@contextmanager
def _told_by(failure: Failure) -> Iterator[None]:
    """Raise ``failure``'s error for any other: damaged folders and missing weights make the library raise anything."""
    try:
        yield
    except Exception as error:
        raise failure(" ".join(first_line(error).split())[:200].rstrip(".: ")) from None
