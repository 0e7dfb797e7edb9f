"""Outcomes of the compatibility table are stored until the code that they depend on changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import compat
from benchmarks.compatibility.cells import Cell, Outcome


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


def test_an_outcome_on_another_device_replaces_none_of_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, computed = Cell("causal", "gpt2", "byte BPE"), []

    def run(cell: Cell, device: str) -> Outcome:
        computed.append(device)
        return Outcome(cell.family, cell.architecture, cell.tokenizer, "fast", words=device)

    monkeypatch.setattr(compat, "run", run)
    devices = ("cpu", "second", "cuda:0", "cpu")
    assert [compat.outcome_of(cell, tmp_path, device, device).words for device in devices] == [*devices]
    assert computed == ["cpu", "second", "cuda:0"]
