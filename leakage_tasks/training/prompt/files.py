"""What tuning a soft prompt writes: a checkpoint to be taken up from, and the tuned prompt as a PEFT adapter folder.

A checkpoint is safetensors and JSON; beside a prompt's weights lies a record of how it was made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.version import __version__
from leakage_tasks.training.prompt.settings import PromptSettings

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, RECORD = "adapter_config.json", "adapter_model.safetensors", "training.json"
CARD = "README.md"
"""Written by PEFT, not by us."""
SCHEMA = 1
"""Of checkpoints."""


@dataclass(frozen=True)
class PromptLoss:
    """Both losses, in bits a token, mean over the pairs."""

    mle: float
    """Equation 1: mean cost of a suffix' tokens."""
    smoothing: float
    """Equation 2: mean cost of its N dearest."""
    total: float
    """Equation 3: ``mle`` + α · ``smoothing``."""


@dataclass(frozen=True)
class PromptEpoch:
    """Losses of an epoch: while training in it, and on the validation pairs after it."""

    epoch: int
    training: PromptLoss
    validation: PromptLoss


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
    try:
        with safe_open(path, framework="pt") as file:
            about = parse_json((file.metadata() or {})["leakage"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        epochs = [
            PromptEpoch(each["epoch"], PromptLoss(**each["training"]), PromptLoss(**each["validation"]))
            for each in about["epochs"]
        ]
        prompt, best, of = tensors.pop("prompt"), tensors.pop("best"), about["run"]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"{path}: not a checkpoint of a soft prompt ({type(error).__name__}): delete it and start without --resume"
        ) from None
    _check_same(path, of, json.loads(json.dumps(run)))
    return Progress(prompt, best, {name.partition(".")[2]: tensor for name, tensor in tensors.items()}, epochs)


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


@dataclass(frozen=True)
class TunedPrompt:
    """What :func:`~leakage_tasks.training.prompt.tuning.tune_prompt` found."""

    prompt: Tensor
    """float32 [length, dimensions], after the epoch ``best_epoch``."""
    losses: tuple[PromptEpoch, ...]
    """Of every epoch there was."""
    best_epoch: int
    settings: PromptSettings
    run: Mapping[str, Any]
    """Settings, precision, and hashes of the model's weights and both sets of pairs."""
    model_config: Any
    seconds: float
    """Since the start or, after an interruption, since the last one."""

    @property
    def stopped_early(self) -> bool:
        """Whether patience ended before the epochs did."""
        return len(self.losses) < self.settings.epochs

    def save(self, folder: str | Path, base: str, *, like: Path | None = None) -> None:
        """Write the adapter for the model called ``base`` and ``training.json`` to ``folder``.

        A base model that is a folder is named by its whole path. An earlier prompt there is replaced. It is as open as
        ``like``, the data it was tuned on. Raises OptionError if something else is there.
        """
        from safetensors.torch import save_file

        place = Path(folder).resolve()
        check_output(place)
        base = str(Path(base).resolve()) if Path(base).is_dir() else base
        with replacing(place, like=like) as beside:
            self._config(base).save_pretrained(str(beside))
            vectors = self.prompt.detach().float().cpu().contiguous()
            save_file({"prompt_embeddings": vectors}, beside / WEIGHTS, metadata={"format": "pt"})
            (beside / RECORD).write_text(json.dumps(self.record(base), indent=1), encoding="utf-8")

    def record(self, base: str) -> dict[str, Any]:
        """What ``training.json`` holds."""
        return {
            "made_by": f"lm-eval-leakage {__version__}",
            "base_model": base,
            "best_epoch": self.best_epoch,
            "stopped_early": self.stopped_early,
            "seconds": round(self.seconds, 1),
            "losses_unit": "bits a token",
            "losses": [asdict(epoch) for epoch in self.losses],
            "settings": self.run["settings"],
            "dtype": self.run["dtype"],
            "hashes": {name: value for name, value in self.run.items() if name not in ("settings", "dtype")},
        }

    def _config(self, base: str) -> Any:
        from peft import PromptTuningConfig, TaskType

        config, (length, dimensions) = self.model_config.get_text_config(), self.prompt.shape
        return PromptTuningConfig(
            task_type=TaskType.CAUSAL_LM,
            base_model_name_or_path=base,
            inference_mode=True,
            num_virtual_tokens=length,
            token_dim=dimensions,
            num_transformer_submodules=1,
            # Of no use to prompt tuning, but PEFT wants both, and finds none in a recurrent model's config.
            num_layers=getattr(config, "num_hidden_layers", 1),
            num_attention_heads=getattr(config, "num_attention_heads", 1),
        )


def check_output(folder: Path) -> None:
    """Raise OptionError if a prompt saved in ``folder`` would take the place of anything but an earlier prompt."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file, where a folder is to be made: choose another --output")
    if not folder.parent.is_dir():
        raise OptionError(f"{folder}: cannot be made (no folder {str(folder.parent)!r}): make that first")
    if folder.is_dir() and any(folder.iterdir()) and not _holds_prompt(folder):
        raise OptionError(f"{folder}: holds other things than a prompt, which would be lost: choose another --output")


def _holds_prompt(folder: Path) -> bool:
    if not {each.name for each in folder.iterdir()} <= {CONFIG, WEIGHTS, RECORD, CARD}:
        return False
    try:
        config = parse_json(read_text(folder / CONFIG))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("peft_type") == "PROMPT_TUNING"
