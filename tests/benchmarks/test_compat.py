"""Outcomes of the compatibility table are stored until the code that they depend on changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import compat


def test_only_outcomes_on_the_second_device_depend_on_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "ROOT", tmp_path)
    device = tmp_path / "tests" / "second_device.py"
    device.parent.mkdir()
    found = []
    for code in ("one", "another"):
        device.write_text(code)
        found.append([compat.fingerprint(name) for name in ("cpu", "second")])
    (cpu, second), (cpu_later, second_later) = found
    assert cpu == cpu_later
    assert second != second_later
