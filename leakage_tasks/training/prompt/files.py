"""A tuned soft prompt as a PEFT adapter folder, with a record of how it was made beside the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.training.prompt.loss import PromptEpoch
from leakage_tasks.training.prompt.settings import PromptSettings

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, RECORD = "adapter_config.json", "adapter_model.safetensors", "training.json"
CARD = "README.md"
"""Written by PEFT, not by us."""


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
        from leakage_tasks.core.version import __version__

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
