"""Detection of weights that are sharded over processes, so that no process can read the model alone."""

from __future__ import annotations

from typing import Any

from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor

from leakage_tasks.core.errors import TargetError

FSDP, ZERO_3, DEVICE_MESH = "FSDP", "DeepSpeed ZeRO-3", "FSDP2 or tensor parallelism"
_PARTITIONED = 3
"""Stage of DeepSpeed's ZeRO from which the weights are partitioned."""


def sharding_of(model: Any, accelerator: Any = None) -> str | None:
    """Return the name of the method that shards the weights of a model; None if each process has all weights.

    Every process gets an equal result, because no process reads a weight.

    Args:
        model: The model, with or without its wrappers.
        accelerator: The ``Accelerator`` of the trainer, whose state names DeepSpeed's stage.
    """
    plugin = getattr(getattr(accelerator, "state", None), "deepspeed_plugin", None)
    if getattr(plugin, "zero_stage", 0) == _PARTITIONED:
        return ZERO_3
    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        return FSDP
    for parameter in model.parameters():
        if hasattr(parameter, "ds_id"):
            return ZERO_3
        if isinstance(parameter, DTensor):
            return DEVICE_MESH
    return None


def check_whole(model: Any, accelerator: Any = None) -> None:
    """Raise TargetError if no process has all weights.

    Call it on all processes: reading sharded weights needs all of them, so they must leave together.
    """
    method = sharding_of(model, accelerator)
    if method is not None:
        raise TargetError(
            f"ExposureCallback: the weights are sharded over processes ({method}), so they cannot be measured during "
            "training: remove the callback, save whole checkpoints, and audit them with 'leakage checkpoints FOLDER "
            "--metadata canaries=…'"
        )


def weights_of(parameter: Any) -> int:
    """Return the number of weights of a parameter over all processes."""
    return int(getattr(parameter, "ds_numel", None) or parameter.numel())
