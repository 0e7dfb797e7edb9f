"""Findings of runs as frames, and exposure computed from costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd

    from leakage_tasks.attacks.finding import Finding

_LEFT_OUT = ("guesses", "correct", "extra", "manifest", "settings_hash")
"""Fields of findings that are not a single value."""


def exposure(costs: ArrayLike, references: ArrayLike) -> FloatArray:
    """Return the exposure in bits, ``[n]``, of secrets with ``costs`` among other values with costs ``references``.

    Exposure is log2 |R| − log2 rank (The Secret Sharer, Definition 3). R contains the secret and the m references; the
    rank is 1 plus the number of references with an equal or lower cost, so ties count against the secret. If the
    references are all other values of the space, the exposure is exact. With a random sample it is an estimate of at
    most log2(m + 1) bits (section 4.3). Raises OptionError for NaN costs or without references.

    Examples:
        >>> from leakage_tasks import exposure
        >>> exposure([1.0, 9.0], [2.0, 3.0, 4.0]).tolist()
        [2.0, 0.0]
    """
    secrets, others = np.atleast_1d(np.asarray(costs, float)), np.sort(np.asarray(references, float).ravel())
    if not len(others) or secrets.ndim != 1:
        raise OptionError(
            f"exposure: costs of shape {list(secrets.shape)} and {len(others)} references: give [n] and [m]"
        )
    if np.isnan(secrets).any() or np.isnan(others).any():
        raise OptionError("exposure: some costs are NaN: give numbers")
    ranks = 1 + np.searchsorted(others, secrets, side="right")
    return np.log2(len(others) + 1) - np.log2(ranks)


def read_findings(*paths: str | Path) -> pd.DataFrame:
    """Read samples files, or folders of samples files, into a tidy frame with one row for each canary and task.

    Its columns include ``exposure`` in bits and ``extracted``. Natural secrets are masked only if they are masked in
    the samples. Raises ResultsError.

    Examples:
        >>> from leakage_tasks import read_findings
        >>> read_findings("results").groupby("task").size().to_dict()
        {'canary_exposure': 3, 'canary_extraction': 3}
    """
    return findings_frame(findings_by_task(*paths))


def findings_by_task(*paths: str | Path) -> dict[str, list[Finding]]:
    """Read the findings in samples files, or in folders of samples files. Raises ResultsError for an invalid file."""
    from leakage_tasks.report.load.sample_files import find_samples
    from leakage_tasks.report.load.samples import read_all_samples

    by_task: dict[str, list[Finding]] = {}
    for file in find_samples(paths).files:
        samples = read_all_samples(file)
        by_task.setdefault(samples.task, []).extend(samples.findings())
    return {task: findings for task, findings in by_task.items() if findings}


def findings_frame(findings: Mapping[str, Sequence[Finding]]) -> pd.DataFrame:
    """Return findings as a tidy frame: one row per finding, one column per field with a single value."""
    import pandas as pd

    rows = [
        {
            "task": task,
            **{name: value for name, value in asdict(finding).items() if name not in _LEFT_OUT},
            "exposure": finding.exposure,
            "extracted": None if finding.correct is None else all(finding.correct),
        }
        for task, task_findings in findings.items()
        for finding in task_findings
    ]
    return pd.DataFrame(rows)
