"""Where tuning a soft prompt stands after an epoch, as a file it can be taken up from: safetensors and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.training.prompt.loss import PromptEpoch, PromptLoss

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA = 1


@dataclass
class Progress:
    """All that the next epoch depends on, and what the epochs so far have brought."""

    prompt: Tensor
    """The prompt as it is now, float32 [length, dimensions]."""
    best: Tensor
    """The prompt after the epoch of lowest validation loss."""
    optimiser: dict[str, Tensor] = field(default_factory=dict)
    """What AdamW remembers of the prompt, by its own names; empty before the first step."""
    epochs: list[PromptEpoch] = field(default_factory=list)

    @property
    def best_epoch(self) -> int:
        """The first epoch of lowest validation loss; 0 before the first."""
        return min(self.epochs, key=lambda each: each.validation.total).epoch if self.epochs else 0


def check_checkpoint(path: Path | None, resume: bool) -> None:
    """Raise OptionError if ``resume`` finds no checkpoint at ``path``, or a fresh run finds one it would overwrite."""
    if resume and path is None:
        raise OptionError("resume: there is no checkpoint to go on from: give checkpoint= too")
    if path is None:
        return
    if resume and not path.is_file():
        raise OptionError(f"{path}: no checkpoint there to go on from: start anew, without --resume")
    if not resume and path.exists():
        raise OptionError(f"{path}: holds an interrupted run: go on with it by --resume, or delete it to start anew")


def save_checkpoint(path: Path, progress: Progress, run: Mapping[str, Any]) -> None:
    """Write ``progress`` of ``run``, which says what it was made from: settings and hashes of model and data.

    The file is for its owner alone, who may go on from it.
    """
    from safetensors.torch import save_file

    tensors = {"prompt": progress.prompt, "best": progress.best}
    tensors |= {f"optimiser.{name}": tensor for name, tensor in progress.optimiser.items()}
    about = {"schema": SCHEMA, "run": dict(run), "epochs": [asdict(epoch) for epoch in progress.epochs]}
    held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with replacing(path, private=True) as beside:
        save_file(held, beside, metadata={"leakage": json.dumps(about)})


def load_checkpoint(path: Path, run: Mapping[str, Any]) -> Progress:
    """Read what :func:`save_checkpoint` wrote.

    Raises OptionError for a file that is none, or one of another run: other settings, model or data.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = parse_json((file.metadata() or {})["leakage"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        epochs = [_epoch(fields) for fields in about["epochs"]]
        prompt, best, of = tensors.pop("prompt"), tensors.pop("best"), about["run"]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"{path}: not a checkpoint of a soft prompt ({type(error).__name__}): delete it and start without --resume"
        ) from None
    _check_same(path, of, json.loads(json.dumps(run)))
    return Progress(prompt, best, {name.partition(".")[2]: tensor for name, tensor in tensors.items()}, epochs)


def _epoch(fields: Mapping[str, Any]) -> PromptEpoch:
    return PromptEpoch(fields["epoch"], PromptLoss(**fields["training"]), PromptLoss(**fields["validation"]))


def _check_same(path: Path, of: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    then, now = ({**each.get("settings", {}), **each, "settings": None} for each in (of, run))
    for name in {**now, **then}:
        if then.get(name) != now.get(name):
            known = (
                f"{name}={then.get(name)!r}, not {now.get(name)!r}" if name in run["settings"] else f"another {name}"
            )
            raise OptionError(
                f"{path}: is of a run with {known}: resume with what it was started with, or delete it to start anew"
            )
