"""Running the harness' own command, unmodified, and reading back what it logged."""

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

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding

_PLAIN = re.compile(r"[\w./-]*(/[\w.-]+|\.[a-z]{2,})")


@dataclass(frozen=True)
class HarnessCommand:
    """One call of ``lm_eval`` on a saved model."""

    model: Path
    """Its folder."""
    tasks: Sequence[str]
    """Their names."""
    metadata: Mapping[str, str | int]
    """What the tasks are told: manifest, budget and so on."""
    output: Path
    """Folder of results and samples."""
    device: str = "cpu"
    """As torch names it."""
    kind: str = "hf"
    """What ``--model`` takes."""
    settings: Mapping[str, str | int] = field(default_factory=dict)
    """For ``--model_args``, beside the model's place."""
    include: Path | None = None
    """A folder with more tasks."""
    batch_size: int | str | None = None
    """None: the harness chooses its own."""

    @property
    def arguments(self) -> list[str]:
        """What stands after ``lm_eval`` on the command line."""
        return [
            *("--model", self.kind, "--model_args", _settings({"pretrained": str(self.model), **self.settings})),
            *("--tasks", ",".join(self.tasks), "--metadata", _settings(self.metadata)),
            *(("--include_path", str(self.include)) if self.include is not None else ()),
            *(("--batch_size", str(self.batch_size)) if self.batch_size is not None else ()),
            *("--device", self.device, "--output_path", str(self.output), "--log_samples"),
        ]

    def __str__(self) -> str:
        return shlex.join(["lm_eval", *self.arguments])

    def run(self, log: Path) -> str:
        """Run it, offline and on one thread, and return what it printed (its table); its messages go to ``log``.

        The results of an earlier run in ``output`` are removed first. Raises LeakageError with the last of
        the messages if it fails.
        """
        shutil.rmtree(self.output, ignore_errors=True)
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        # A model this small gains nothing by more threads, and they stall where other work keeps a core busy.
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        with log.open("w", encoding="utf-8") as messages:
            done = subprocess.run(
                [sys.executable, "-m", "lm_eval", *self.arguments],
                env={**os.environ, **offline, **threads, "PYTHONIOENCODING": "utf-8"},
                stdout=subprocess.PIPE,
                stderr=messages,
                encoding="utf-8",
                check=False,
            )
        if done.returncode:
            last = [line for line in re.split(r"[\r\n]+", log.read_text(encoding="utf-8")) if line.strip()][-1:]
            raise LeakageError(
                f"lm_eval ended with code {done.returncode} ({''.join(last)}): see {log}, and run 'leakage doctor'"
            )
        return done.stdout

    def results(self) -> dict[str, Any]:
        """What the results file of the last run holds. Raises LeakageError."""
        written = self._newest("results_*.json", "results: run lm_eval with --output_path")
        return json.loads(written.read_text(encoding="utf-8"))

    def findings(self, task: str) -> list[Finding]:
        """What the attacks of ``task`` found, one a canary, from the logged samples of the last run."""
        from leakage_tasks.attacks import finding_from_json

        logged = self._newest(f"samples_{task}_*.jsonl", f"samples of {task}: run lm_eval with --log_samples")
        with logged.open(encoding="utf-8") as lines:
            return [finding_from_json(sample["resps"][0][0]) for _, sample in read_json_lines(lines)]

    def _newest(self, names: str, what: str) -> Path:
        """The last file of these ``names`` in ``output``. Raises LeakageError where there is none."""
        written = sorted(self.output.rglob(names))
        if not written:
            raise LeakageError(f"{self.output}: holds no {what}")
        return written[-1]


def _settings(values: Mapping[str, str | int]) -> str:
    """``key=value,…`` as the harness reads it; JSON where a value has characters that would confuse it."""
    if all(isinstance(value, int) or _PLAIN.fullmatch(value) for value in values.values()):
        return ",".join(f"{name}={value}" for name, value in values.items())
    return json.dumps(dict(values))
