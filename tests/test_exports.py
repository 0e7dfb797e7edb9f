"""What can be imported from the package itself, and that importing the package costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import leakage_tasks

LOADED = """
import sys
before = set(sys.modules)
import leakage_tasks
print(*sorted(set(sys.modules) - before))
"""


def test_importing_the_package_imports_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["leakage_tasks"]


def test_the_public_names_are_these() -> None:
    """Others' code rests on them: one is never taken away or renamed without a release that still knows both."""
    callables = "audit exposure extract_suffixes make_canaries plant read_findings read_manifest read_runs tune_prompt"
    more = "verify write_board write_card write_manifest Audit ExposureCallback LeakageError Pair PromptSettings"
    reports = "verify_report write_report search_texts"
    assert sorted(leakage_tasks.__all__) == sorted([*callables.split(), *more.split(), *reports.split(), "__version__"])
    assert dir(leakage_tasks) == sorted(leakage_tasks.__all__)


def test_what_the_package_names_is_there() -> None:
    from leakage_tasks.training.callback.callback import ExposureCallback

    assert leakage_tasks.ExposureCallback is ExposureCallback
    assert all(hasattr(leakage_tasks, name) for name in leakage_tasks.__all__)


def test_another_name_is_missing_as_anywhere() -> None:
    with pytest.raises(AttributeError, match="module 'leakage_tasks' has no attribute 'Exposure'"):
        _ = leakage_tasks.Exposure
