"""The toy study, registered alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leakage_tasks.studies import Study, registry
from tests.studies.toy import Toy, make_study


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def study(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The toy's study, the only one registered in this test."""
    monkeypatch.setattr(registry, "STUDIES", {})
    monkeypatch.setattr(registry, "MODULES", ())
    return registry.register(make_study(toy))


@pytest.fixture
def leakage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line: arguments in; exit code, stdout and stderr out."""
    from leakage_tasks.cli import main

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["leakage", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run
