"""JSON nested deeper than Python reads, in every file that users hand over: one line, no RecursionError."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leakage_tasks.canaries import read_manifest
from leakage_tasks.canaries.sidecar import read_sidecar
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.data import Columns, format_of
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.load.samples import read_samples
from leakage_tasks.report.load.training_log import read_curves, read_history
from leakage_tasks.targets.label_names import read_labels

DEEP = '{"a":' * 100_000
READERS: dict[str, Callable[[Path], object]] = {
    "manifest.jsonl": read_manifest,
    "data.jsonl": lambda path: format_of(path).survey(path, Columns("text", None, "train")),
    "data.txt.leakage.json": read_sidecar,
    "exposure_by_epoch.json": read_history,
    "results_2026-01-01T00-00-00.000000.json": lambda path: read_runs([path]),
    "samples_canary_exposure_2026-01-01T00-00-00.000000.jsonl": read_samples,
    "trainer_state.json": read_curves,
    "labels.json": lambda path: read_labels(str(path), 2),
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_nested_too_deeply_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(DEEP + "\n")
    with pytest.raises(LeakageError) as caught:
        READERS[name](path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 500


def test_other_json_is_read_as_ever() -> None:
    assert parse_json(b'{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(DEEP)
