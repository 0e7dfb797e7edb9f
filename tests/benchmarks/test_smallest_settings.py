"""Benchmarks at their smallest settings: they run, and what they compare agrees."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import pytest

from benchmarks import callback, coverage_models, peaks, suffixes, together, together_pairs


def _printed(benchmark: object, options: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> str:
    monkeypatch.setattr(sys, "argv", ["benchmark", *options.split()])
    benchmark.main()  # type: ignore[attr-defined]
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("shape", "taught"),
    [
        ("gpt2-tiny", 0.5),
        ("lstm", 0),
        *(pytest.param(shape, 0, marks=pytest.mark.slow) for shape in ("gemma3", "harness")),
    ],
)
def test_together_agrees_with_one_by_one(
    shape: str, taught: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    options = f"--canaries 2 --digits 2 --rows 16 --epochs 2 --budget 150 --shape {shape} --taught {taught}"
    printed = _printed(together, options, monkeypatch, capsys)
    assert len(re.findall("guesses are equal", printed)) == 2
    assert all(float(bits) < 1e-3 for bits in re.findall(r"at most (\S+) bits", printed))


@pytest.mark.parametrize("shape", ["gpt2", "lstm"])
def test_together_pairs_agrees_with_one_by_one(
    shape: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    printed = _printed(together_pairs, f"--pairs 2 --draws 2 --rows 16 --shape {shape}", monkeypatch, capsys)
    assert "NOT EQUAL" not in printed


def test_public_pairs_that_are_missing_end_a_benchmark_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("LEAKAGE_DATA", raising=False)
    with pytest.raises(SystemExit, match="^suffixes: the public pairs are missing: set LEAKAGE_DATA to"):
        _printed(suffixes, f"--lab {tmp_path / 'lab'}", monkeypatch, capsys)


@pytest.mark.slow
def test_the_callback_leaves_the_weights_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    options = "--epochs 1 --characters 3000 --budget 20 --canaries 1 --share 0"
    figures = json.loads("{" + _printed(callback, options, monkeypatch, capsys).partition("{\n")[2])
    assert figures["same_weights"]
    assert len(figures["looks"]) == 2


@pytest.mark.parametrize(
    "work", [pytest.param(work, marks=[pytest.mark.slow] * (work == "60 after a context")) for work in peaks.WORKS]
)
def test_a_workload_of_the_memory_peaks_has_finite_results(work: str) -> None:
    assert all(map(math.isfinite, peaks.WORKS[work]()(True)))


@pytest.mark.slow
def test_estimated_ranks_are_compared_with_counts_and_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage_models, "CONTROLS", 2)
    monkeypatch.setattr(coverage_models, "SAMPLE", 50)
    target = coverage_models.subjects()["GPT-2, random and sharp"]()
    assert coverage_models.against_counts(target)["largest_error_bits"] < 1
    assert coverage_models.against_a_sample(target, {"budget": 200})["overlap"] == "2 of 2"
