"""Audits of all checkpoints of a training run, each with the harness' unmodified command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.command_words import join_values
from leakage_tasks.core.errors import LeakageError, OptionError, ResultsError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.output_folder import claim_output_folder
from leakage_tasks.harness.command import run_command
from leakage_tasks.harness.default_metadata import with_defaults

COMMAND = "leakage checkpoints"
DONE, LOG = "audited.json", "lm_eval.log"
"""Names of the file that marks a finished audit, and of the output of ``lm_eval``."""
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model", "vocab.json")


@dataclass(frozen=True)
class Checkpoint:
    """A saved state of a model after ``step`` steps; ``base`` is the model that an adapter was trained on."""

    step: int
    folder: Path
    base: str | None = None

    @property
    def name(self) -> str:
        """The name in reports: that of the folder, or ``base`` for the model before training."""
        return self.folder.name if self.step else "base"


@dataclass(frozen=True)
class CheckpointSettings:
    """The arguments of ``lm_eval`` that all audits share.

    ``metadata`` and ``model_args`` are values by name, and ``options`` further arguments.
    """

    tasks: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    model: str = "hf"
    model_args: Mapping[str, Any] = field(default_factory=dict)
    base: str | None = None
    options: Sequence[str] = ()

    def arguments(self, checkpoint: Checkpoint, tokenizer: str | None, output: Path) -> list[str]:
        """Return the arguments after ``lm_eval`` for one checkpoint."""
        path = str(checkpoint.folder)
        named = {"pretrained": path} if checkpoint.base is None else {"pretrained": checkpoint.base, "peft": path}
        named |= {} if tokenizer is None else {"tokenizer": tokenizer}
        metadata = ("--metadata", join_values(self.metadata)) if self.metadata else ()
        return [
            *("--model", self.model, "--model_args", join_values({**named, **self.model_args})),
            *("--tasks", self.tasks, *metadata, *self.options),
            *("--output_path", str(output), "--log_samples"),
        ]


@dataclass(frozen=True)
class CheckpointAudit:
    """The outcome for one checkpoint: the folder of its results, or the reason why there are none."""

    checkpoint: Checkpoint
    results: Path
    failure: str | None = None


def audit_checkpoints(
    folder: Path,
    output: Path,
    settings: CheckpointSettings,
    report: Callable[[str], None] = lambda line: None,
) -> list[CheckpointAudit]:
    """Audit every ``checkpoint-*`` of a training run, in the order of steps.

    A checkpoint whose audit is finished is not audited again. A checkpoint that cannot be audited does not stop the
    others.

    Args:
        folder: Output folder of the training run.
        output: Folder for the results, one subfolder per checkpoint.
        settings: Arguments of ``lm_eval``. If they name a base model, it is audited as step 0.
        report: Called with a line on the progress.

    Returns:
        One outcome per checkpoint.

    Raises:
        OptionError: There is no checkpoint, or an earlier audit had other settings.
        LeakageError: The output folder cannot be used.
    """
    checkpoints = find_checkpoints(folder, settings.base)
    claim_output_folder(output, COMMAND, ())
    states = [_state(checkpoint, settings) for checkpoint in checkpoints]
    done = [_is_done(output / each.name, state) for each, state in zip(checkpoints, states, strict=True)]
    audits = []
    for number, (checkpoint, state) in enumerate(zip(checkpoints, states, strict=True), 1):
        results = output / checkpoint.name
        place = f"{checkpoint.name} ({number} of {len(checkpoints)})"
        report(f"{place}: {'audited before' if done[number - 1] else 'lm_eval runs'}")
        failure = None if done[number - 1] else _audit(checkpoint, folder, results, settings, state)
        if failure is not None:
            report(f"{place}: left out: {failure}")
        audits.append(CheckpointAudit(checkpoint, results, failure))
    return audits


def find_checkpoints(folder: Path, base: str | None = None) -> list[Checkpoint]:
    """Return the checkpoints of a training run by step, after the ``base`` model if it is given.

    An adapter gets ``base``, or else the base model that its own file names. Raises OptionError without a checkpoint.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder}: no such folder: give the output_dir of a training run")
    named = [(int(match[1]), path) for path in folder.iterdir() if (match := _CHECKPOINT.fullmatch(path.name))]
    found = sorted((step, path) for step, path in named if path.is_dir())
    if not found:
        raise OptionError(
            f"{folder}: no folder checkpoint-… in it: give the output_dir of a run that saved checkpoints, as "
            "save_strategy='epoch' does"
        )
    first = [] if base is None else [Checkpoint(0, Path(base))]
    return [*first, *(Checkpoint(step, path, _base_of(path, base)) for step, path in found)]


def _base_of(path: Path, base: str | None) -> str | None:
    """Return the base model of an adapter; None for a full model, and for an adapter that names none."""
    from leakage_tasks.report.load.run import adapter_base

    named = adapter_base(path)
    return None if named is None else base or named or None


def _audit(
    checkpoint: Checkpoint, run: Path, results: Path, settings: CheckpointSettings, state: Mapping[str, Any]
) -> str | None:
    """Audit a checkpoint; return the reason if this fails."""
    if (fault := _fault(checkpoint)) is not None:
        return fault
    tokenizer = None if "tokenizer" in settings.model_args else _tokenizer(checkpoint, run, settings.base)
    results.mkdir(exist_ok=True)
    failure = run_command(settings.arguments(checkpoint, tokenizer, results), results / LOG)
    if failure is not None:
        return f"{failure} (see {results / LOG})"
    if not any(results.rglob("results_*.json")):
        return f"lm_eval wrote no results (see {results / LOG})"
    write_text(results / DONE, json.dumps(state, indent=1) + "\n")
    return None


def _fault(checkpoint: Checkpoint) -> str | None:
    """Return what a checkpoint lacks, as far as its files show it; None for the model before training."""
    folder = checkpoint.folder
    if not checkpoint.step:
        return None
    if (folder / "adapter_config.json").is_file():
        if checkpoint.base is None:
            return "adapter_config.json names no base model: give it with --base"
    elif not (folder / "config.json").is_file():
        return "neither config.json nor adapter_config.json is in it, so it is no saved model: save it again"
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        return "no weights in it (*.safetensors or pytorch_model*.bin): convert sharded weights to one model first"
    return None


def _tokenizer(checkpoint: Checkpoint, run: Path, base: str | None) -> str | None:
    """Return a tokenizer for a full model that was saved without one; None if it needs none or there is none."""
    if not checkpoint.step or checkpoint.base is not None or _has_tokenizer(checkpoint.folder):
        return None
    return base or (str(run) if _has_tokenizer(run) else None)


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _TOKENIZER)


def _state(checkpoint: Checkpoint, settings: CheckpointSettings) -> dict[str, Any]:
    """Return hashes of all that decides on the results of an audit, by name."""
    from leakage_tasks.tasks.base_task import fingerprint

    metadata = with_defaults(settings.metadata)
    decisive = {
        "checkpoint": [str(checkpoint.folder), checkpoint.base, list(_files(checkpoint.folder))],
        "--tasks": settings.tasks,
        "--metadata": metadata,
        "--model": [settings.model, settings.model_args],
        "files of --metadata": [list(_files(Path(value))) for value in metadata.values() if isinstance(value, str)],
        "options of lm_eval": list(settings.options),
    }
    return {name: fingerprint(value) for name, value in decisive.items()}


def _files(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of change of a file, or of the files in a folder."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                yield file.name, file.stat().st_size, file.stat().st_mtime_ns
    except OSError:
        return


def _is_done(results: Path, state: Mapping[str, Any]) -> bool:
    """Return True if an audit is finished. Raises OptionError if it had other settings."""
    marker = results / DONE
    if not marker.is_file():
        return False
    try:
        before = dict(parse_json(read_text(marker)))
    except (OSError, ValueError, TypeError):
        raise ResultsError(f"{marker}: cannot be read: delete the folder {results} to audit it again") from None
    changed = [name for name, value in state.items() if before.get(name) != value]
    if changed:
        raise OptionError(
            f"{results}: was audited with other {' and '.join(changed)}: choose another --output, or delete this folder"
        )
    return any(results.rglob("results_*.json"))


def check_any(audits: Sequence[CheckpointAudit]) -> None:
    """Raise LeakageError if no checkpoint could be audited."""
    if all(audit.failure is not None for audit in audits):
        raise LeakageError(f"{audits[0].checkpoint.name}: {audits[0].failure}; no other checkpoint could be audited")
