"""``--help`` of benchmarks without options shows a page and measures nothing."""

from __future__ import annotations

from types import ModuleType

import pytest

from benchmarks import context_alarms, coverage_models


@pytest.mark.parametrize("benchmark", [context_alarms, coverage_models], ids=lambda module: module.__name__)
def test_help_ends_before_a_model_is_made(monkeypatch: pytest.MonkeyPatch, benchmark: ModuleType) -> None:
    monkeypatch.setattr(benchmark, "subjects", lambda: pytest.fail("a model was made"))
    monkeypatch.setattr("sys.argv", [benchmark.__name__, "--help"])
    with pytest.raises(SystemExit, match="^0$"):
        benchmark.main()
