"""Files of the tuning of a soft prompt: a checkpoint to resume from, and the tuned prompt as a PEFT adapter folder.

A checkpoint is a safetensors file with JSON metadata. The folder of a prompt also has a record of its tuning.
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
from leakage_tasks.core.records import reader_of
from leakage_tasks.core.version import __version__
from leakage_tasks.training.prompt.settings import PromptSettings

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, RECORD = "adapter_config.json", "adapter_model.safetensors", "training.json"
CARD = "README.md"
"""Name of the model card, which PEFT writes."""
SCHEMA = 1
"""Version of the format of checkpoints."""


@dataclass(frozen=True)
class PromptLoss:
    """Both losses in bits per token, means over the pairs."""

    mle: float
    """Equation 1: mean cost of a suffix' tokens."""
    smoothing: float
    """Equation 2: mean cost of its N tokens with the highest costs."""
    total: float
    """Equation 3: ``mle`` + α · ``smoothing``."""


@dataclass(frozen=True)
class PromptEpoch:
    """Losses of an epoch: during training, and on the validation pairs after the epoch."""

    epoch: int
    training: PromptLoss
    validation: PromptLoss


@dataclass
class Progress:
    """The state of a tuning after an epoch."""

    prompt: Tensor
    """The current prompt, float32 [length, dimensions]."""
    best: Tensor
    """The prompt after the epoch with the lowest validation loss."""
    optimiser: dict[str, Tensor] = field(default_factory=dict)
    """AdamW's state for the prompt; empty before the first step."""
    epochs: list[PromptEpoch] = field(default_factory=list)

    @property
    def best_epoch(self) -> int:
        """The first epoch with the lowest validation loss; 0 before the first epoch."""
        return min(self.epochs, key=lambda epoch: epoch.validation.total).epoch if self.epochs else 0


def check_checkpoint(path: Path | None, resume: bool) -> None:
    """Raise OptionError if there is no checkpoint to resume from, or if a new run would overwrite a checkpoint."""
    if resume and path is None:
        raise OptionError("resume: there is no checkpoint to resume from: give checkpoint= too")
    if path is None:
        return
    if resume and not path.is_file():
        raise OptionError(f"{path}: there is no checkpoint to resume from: start a new run, without --resume")
    if not resume and path.exists():
        raise OptionError(
            f"{path}: contains an interrupted run: continue with --resume, or delete it to start a new run"
        )


def save_checkpoint(path: Path, progress: Progress, run: Mapping[str, Any]) -> None:
    """Save ``progress`` with the description of its ``run``: settings and hashes of model and data.

    Only the file's owner can read it.
    """
    from safetensors.torch import save_file

    tensors = {"prompt": progress.prompt, "best": progress.best}
    tensors |= {f"optimiser.{name}": tensor for name, tensor in progress.optimiser.items()}
    metadata = {"schema": SCHEMA, "run": dict(run), "epochs": [asdict(epoch) for epoch in progress.epochs]}
    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with replacing(path, private=True) as beside:
        save_file(contiguous, beside, metadata={"leakage": json.dumps(metadata)})


def load_checkpoint(path: Path, run: Mapping[str, Any]) -> Progress:
    """Load a checkpoint.

    Raises OptionError if the file is not a checkpoint, or from a run with other settings, model or data.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = parse_json((file.metadata() or {})["leakage"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        epochs = list(reader_of(tuple[PromptEpoch, ...])(metadata["epochs"], "epochs"))
        prompt, best, saved_run = tensors.pop("prompt"), tensors.pop("best"), metadata["run"]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"{path}: not a checkpoint of a soft prompt ({type(error).__name__}): delete it and start without --resume"
        ) from None
    _check_same(path, saved_run, json.loads(json.dumps(run)))
    return Progress(prompt, best, {name.partition(".")[2]: tensor for name, tensor in tensors.items()}, epochs)


def _check_same(path: Path, saved: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    before, now = ({**inputs.get("settings", {}), **inputs, "settings": None} for inputs in (saved, run))
    for name in {**now, **before}:
        if before.get(name) != now.get(name):
            difference = (
                f"{name}={before.get(name)!r}, not {now.get(name)!r}" if name in run["settings"] else f"another {name}"
            )
            raise OptionError(
                f"{path}: is from a run with {difference}: resume with the settings, model and data of that run, or "
                "delete it to start a new run"
            )


@dataclass(frozen=True)
class TunedPrompt:
    """A tuned soft prompt, with its losses and settings."""

    prompt: Tensor
    """float32 [length, dimensions], after the epoch ``best_epoch``."""
    losses: tuple[PromptEpoch, ...]
    """Losses of every epoch."""
    best_epoch: int
    settings: PromptSettings
    run: Mapping[str, Any]
    """Settings, precision, and hashes of the model's weights and both sets of pairs."""
    model_config: Any
    seconds: float
    """Duration of the tuning; for a resumed run, since it was resumed."""

    @property
    def stopped_early(self) -> bool:
        """True if patience ended before all epochs were done."""
        return len(self.losses) < self.settings.epochs

    def save(self, folder: str | Path, base: str, *, like: Path | None = None) -> None:
        """Write the adapter for the model ``base`` and ``training.json`` to ``folder``, replacing an earlier prompt.

        If ``base`` is a folder, its absolute path is written. The folder has the access permissions of ``like``, the
        data of the tuning. Raises OptionError if ``folder`` contains other files.
        """
        from safetensors.torch import save_file

        target = Path(folder).resolve()
        check_output(target)
        base = str(Path(base).resolve()) if Path(base).is_dir() else base
        with replacing(target, like=like) as beside:
            self._config(base).save_pretrained(str(beside))
            vectors = self.prompt.detach().float().cpu().contiguous()
            save_file({"prompt_embeddings": vectors}, beside / WEIGHTS, metadata={"format": "pt"})
            (beside / RECORD).write_text(json.dumps(self.record(base), indent=1), encoding="utf-8")

    def record(self, base: str) -> dict[str, Any]:
        """Return the content of ``training.json``."""
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
            # PEFT requires both although prompt tuning does not use them; a recurrent model's config lacks them.
            num_layers=getattr(config, "num_hidden_layers", 1),
            num_attention_heads=getattr(config, "num_attention_heads", 1),
        )


def check_output(folder: Path) -> None:
    """Raise OptionError if a prompt cannot be saved in ``folder``, or would replace other files than a prompt."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file, not a folder: choose another --output")
    if not folder.parent.is_dir():
        raise OptionError(f"{folder}: cannot be created (no folder {str(folder.parent)!r}): create that folder first")
    if folder.is_dir() and any(folder.iterdir()) and not _is_prompt(folder):
        raise OptionError(f"{folder}: contains other files than a prompt, which would be lost: choose another --output")


def _is_prompt(folder: Path) -> bool:
    if not {path.name for path in folder.iterdir()} <= {CONFIG, WEIGHTS, RECORD, CARD}:
        return False
    try:
        config = parse_json(read_text(folder / CONFIG))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("peft_type") == "PROMPT_TUNING"
