"""Runs of the harness' unmodified command, and loading of its results."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.jsonl import read_json_lines
from leakage_tasks.harness.default_metadata import VARIABLE

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding

_PLAIN = re.compile(r"[\w./-]*(/[\w.-]+|\.[a-z]{2,})")


@dataclass(frozen=True)
class HarnessCommand:
    """One call of ``lm_eval`` on a saved model."""

    model: Path
    """The model's folder."""
    tasks: Sequence[str]
    """Names of the tasks."""
    metadata: Mapping[str, str | int]
    """Options of the tasks: manifest, budget and others."""
    output: Path
    """Folder of results and samples."""
    kind: str = "hf"
    """The value of ``--model``."""
    settings: Mapping[str, str | int] = field(default_factory=dict)
    """Values for ``--model_args`` in addition to the model's folder."""
    include: Path | None = None
    """A folder with more tasks."""
    batch_size: int | str | None = None
    """Batch size; None: the harness' default."""

    @property
    def arguments(self) -> list[str]:
        """The arguments after ``lm_eval`` on the command line."""
        return [
            *("--model", self.kind, "--model_args", _settings({"pretrained": str(self.model), **self.settings})),
            *("--tasks", ",".join(self.tasks), "--metadata", _settings(self.metadata)),
            *(("--include_path", str(self.include)) if self.include is not None else ()),
            *(("--batch_size", str(self.batch_size)) if self.batch_size is not None else ()),
            *("--device", "cpu", "--output_path", str(self.output), "--log_samples"),
        ]

    def __str__(self) -> str:
        return shlex.join(["lm_eval", *self.arguments])

    def run(self, log: Path) -> str:
        """Run the command offline on one thread and return its output, a table; its messages go to ``log``.

        Earlier results in ``output`` are removed first. Raises LeakageError with the last message if the command fails.
        """
        shutil.rmtree(self.output, ignore_errors=True)
        # The command must not depend on defaults that the user set for other runs.
        offline = {VARIABLE: "", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        # Small models are not faster with more threads, which stall if other work keeps a core busy.
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        with log.open("w", encoding="utf-8") as messages:
            completed = subprocess.run(
                [sys.executable, "-m", "lm_eval", *self.arguments],
                env={**os.environ, **offline, **threads, "PYTHONIOENCODING": "utf-8"},
                stdout=subprocess.PIPE,
                stderr=messages,
                encoding="utf-8",
                check=False,
            )
        if completed.returncode:
            last = [line for line in re.split(r"[\r\n]+", log.read_text(encoding="utf-8")) if line.strip()][-1:]
            raise LeakageError(
                f"lm_eval ended with code {completed.returncode} ({''.join(last)}): see {log}, and run 'leakage doctor'"
            )
        return completed.stdout

    def results(self) -> dict[str, Any]:
        """Return the content of the last run's results file. Raises LeakageError if there is none."""
        written = self._newest("results_*.json", "results: run lm_eval with --output_path")
        return json.loads(written.read_text(encoding="utf-8"))

    def findings(self, task: str) -> list[Finding]:
        """Return the findings of ``task``'s attacks, one per canary, from the logged samples of the last run."""
        from leakage_tasks.attacks import finding_from_json

        logged = self._newest(f"samples_{task}_*.jsonl", f"samples of {task}: run lm_eval with --log_samples")
        with logged.open(encoding="utf-8") as lines:
            return [finding_from_json(sample["resps"][0][0]) for _, sample in read_json_lines(lines)]

    def _newest(self, names: str, content: str) -> Path:
        """Return the last file in ``output`` that matches ``names``. Raises LeakageError if there is none."""
        written = sorted(self.output.rglob(names))
        if not written:
            raise LeakageError(f"{self.output}: no {content}")
        return written[-1]


def _settings(values: Mapping[str, str | int]) -> str:
    """Format ``key=value,…`` as the harness reads it, or JSON if a value has special characters."""
    if all(isinstance(value, int) or _PLAIN.fullmatch(value) for value in values.values()):
        return ",".join(f"{name}={value}" for name, value in values.items())
    return json.dumps(dict(values))
