"""The causal model a soft prompt is tuned for, from a folder or hub, and where it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import first_line

if TYPE_CHECKING:
    import torch

DTYPES = ("auto", "float32", "bfloat16")


def load_causal(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """The causal language model called ``name``, in evaluation mode on ``device``.

    Weights come from safetensors, or from a file that ``torch.load`` takes with ``weights_only``; ``dtype`` ``auto`` is
    the precision they were saved in. Raises OptionError for a device or precision there is not, and TargetError for a
    model that cannot be loaded or lacks weights.
    """
    from transformers import AutoModelForCausalLM

    from leakage_tasks.models import register

    place = device_called(device)
    if dtype not in DTYPES:
        raise OptionError(f"dtype={dtype!r}: expected {', '.join(DTYPES)}")
    register()
    auto: Any = AutoModelForCausalLM  # its stubs know no output_loading_info
    try:
        model, loaded = auto.from_pretrained(
            name,
            revision=revision or "main",
            trust_remote_code=trust_remote_code,
            dtype=dtype,
            weights_only=True,
            output_loading_info=True,
        )
    except Exception as error:
        reason = " ".join(first_line(error).split())[:200]
        raise TargetError(
            f"{name}: no causal model can be loaded from there ({reason}): give the folder that save_pretrained "
            "wrote or a hub name"
        ) from None
    if missing := sorted(loaded["missing_keys"]):
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
