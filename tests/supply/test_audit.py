"""The audit of advisories: what pip-audit passes on without having looked it up is no pass here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.supply import audit

PINNED = {"jinja2": "3.1.6", "numpy": "2.4.6"}
FINE = {"name": "jinja2", "version": "3.1.6", "vulns": []}
AFFECTED = {"name": "numpy", "version": "2.4.6", "vulns": [{"id": "PYSEC-0-1", "fix_versions": ["2.4.7"]}]}
SKIPPED = {"name": "numpy", "skip_reason": "Dependency not found on PyPI and could not be audited: numpy (2.4.6)"}


def made_up(folder: Path, answers: dict[str, Any]) -> list[str]:
    """A pip-audit that answers for one service or the other, and fails like the real one for any else."""
    path = folder / "pip_audit.py"
    path.write_text(
        f"import json, sys\nanswers = json.loads({json.dumps(answers)!r})\nasked = answers.get(sys.argv[-1])\n"
        "if asked is None:\n    sys.exit('ConnectionError: failed to resolve the host')\n"
        "print(json.dumps({'dependencies': asked, 'fixes': []}))\n"
    )
    return [sys.executable, str(path)]


def test_all_looked_up_and_no_advisory_passes(tmp_path: Path) -> None:
    program = made_up(tmp_path, {"pypi": [FINE, AFFECTED | {"vulns": []}]})
    assert audit.audit(program, PINNED) == (0, ["2 packages looked up, no advisories"])


def test_an_advisory_fails_and_says_what_mends_it(tmp_path: Path) -> None:
    program = made_up(tmp_path, {"pypi": [FINE, AFFECTED]})
    assert audit.audit(program, PINNED) == (1, ["numpy 2.4.6: PYSEC-0-1, mended in 2.4.7"])


def test_a_skipped_package_fails(tmp_path: Path) -> None:
    code, (line,) = audit.audit(made_up(tmp_path, {"pypi": [FINE, SKIPPED]}), PINNED)
    assert code == 1
    assert line.startswith("numpy 2.4.6: not looked up (Dependency not found on PyPI")


def test_a_package_it_says_nothing_of_fails(tmp_path: Path) -> None:
    program = made_up(tmp_path, {"pypi": [FINE]})
    assert audit.audit(program, PINNED) == (1, ["numpy 2.4.6: not looked up (no answer)"])


@pytest.mark.parametrize("answers", [{}, {"pypi": [SKIPPED]}, {"pypi": [], "osv": []}])
def test_without_a_database_that_is_said_with_a_code_of_its_own(tmp_path: Path, answers: dict[str, Any]) -> None:
    code, (line,) = audit.audit(made_up(tmp_path, answers), PINNED)
    assert code == 3
    assert line.startswith("advisories were not looked up")


def test_another_database_is_asked_where_the_first_knows_nothing(tmp_path: Path) -> None:
    program = made_up(tmp_path, {"pypi": [SKIPPED], "osv": [FINE, AFFECTED]})
    assert audit.audit(program, PINNED)[0] == 1


def test_what_is_installed_is_asked_for_without_ourselves() -> None:
    found = audit.pins()
    assert "torch" in found
    assert "+" not in found["torch"]
    assert audit.OURS not in found


def test_the_command_ends_with_its_code(tmp_path: Path) -> None:
    command = [sys.executable, audit.__file__, "--", *made_up(tmp_path, {})]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("advisories were not looked up")
