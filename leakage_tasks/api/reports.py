"""What runs found, as frames and files."""

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
"""Fields of findings that are no single value."""


def exposure(costs: ArrayLike, references: ArrayLike) -> FloatArray:
    """The exposure in bits, ``[n]``, of secrets that cost ``costs`` among values that cost ``references`` (``[m]``).

    log2 |R| − log2 rank, where R is a secret and the references, and the rank counts the references that cost no more
    (The Secret Sharer, Definition 3). With all other values of the space it is exact; with a random sample it is an
    estimate of at most log2(m + 1) bits (section 4.3). Ties count against the secret. Raises OptionError for costs that
    are no numbers and for no references.

    Examples:
        >>> from leakage_tasks import exposure
        >>> exposure([1.0, 9.0], [2.0, 3.0, 4.0]).tolist()
        [2.0, 0.0]
    """
    mine, others = np.atleast_1d(np.asarray(costs, float)), np.sort(np.asarray(references, float).ravel())
    if not len(others) or mine.ndim != 1:
        raise OptionError(f"exposure: costs of shape {list(mine.shape)} and {len(others)} references: give [n] and [m]")
    if np.isnan(mine).any() or np.isnan(others).any():
        raise OptionError("exposure: some costs are NaN: give numbers")
    ranks = 1 + np.searchsorted(others, mine, side="right")
    return np.log2(len(others) + 1) - np.log2(ranks)


def read_findings(*paths: str | Path) -> pd.DataFrame:
    """Samples files, or folders of them, as a tidy frame: a row a canary and task, ``exposure`` in bits, ``extracted``.

    Secrets of kind ``natural`` are as they stand in the samples. Raises ResultsError.

    Examples:
        >>> from leakage_tasks import read_findings
        >>> read_findings("results").groupby("task").size().to_dict()
        {'canary_exposure': 3, 'canary_extraction': 3}
    """
    return findings_frame(findings_by_task(*paths))


def findings_by_task(*paths: str | Path) -> dict[str, list[Finding]]:
    """The findings in samples files, or in folders of them. Raises ResultsError."""
    from leakage_tasks.report.load.sample_files import find_samples
    from leakage_tasks.report.load.samples import read_samples

    found: dict[str, list[Finding]] = {}
    for file in find_samples(paths).files:
        samples = read_samples(file)
        found.setdefault(samples.task, []).extend(samples.findings())
    return {task: findings for task, findings in found.items() if findings}


def findings_frame(findings: Mapping[str, Sequence[Finding]]) -> pd.DataFrame:
    """Findings as a tidy frame: a row each, a column a field that is a single value."""
    import pandas as pd

    rows = [
        {
            "task": task,
            **{name: value for name, value in asdict(each).items() if name not in _LEFT_OUT},
            "exposure": each.exposure,
            "extracted": None if each.correct is None else all(each.correct),
        }
        for task, found in findings.items()
        for each in found
    ]
    return pd.DataFrame(rows)
