"""The tests with other versions: what is asked for, and what is said where it cannot be had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.supply import elsewhere


def test_without_uv_it_is_said_that_nothing_was_tested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elsewhere, "find_uv", lambda: None)
    monkeypatch.setattr(sys, "argv", ["elsewhere.py", "lowest"])
    elsewhere.main()
    assert capsys.readouterr().out == "lowest: NOT TESTED, uv cannot be had: pip install uv\n"


def test_without_an_interpreter_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(elsewhere, "PLACE", tmp_path)
    monkeypatch.setattr(elsewhere, "interpreter", lambda version: version)
    elsewhere.pythons("false")  # a program that fails, in place of uv
    said = [f"Python {version}: NOT TESTED, no interpreter can be had" for version in elsewhere.PYTHONS]
    assert capsys.readouterr().out.splitlines() == said


def test_a_command_that_fails_ends_it_with_its_code() -> None:
    with pytest.raises(SystemExit) as stop:
        elsewhere.run(sys.executable, "-c", "raise SystemExit(7)")
    assert stop.value.code == 7


def test_an_environment_is_made_anew_once_it_is_of_another_checkout(tmp_path: Path) -> None:
    mark = elsewhere.kept(tmp_path)
    assert mark is not None
    mark.touch()
    assert elsewhere.kept(tmp_path) is None


def test_all_that_is_left_out_is_depended_on() -> None:
    names = {Requirement(line).name for line in elsewhere.lines()}
    assert names >= elsewhere.NEED_TORCH
    kept = {Requirement(line).name for line in elsewhere.lines(without=elsewhere.NEED_TORCH)}
    assert kept == names - elsewhere.NEED_TORCH


@pytest.mark.parametrize("place", [*elsewhere.EVERYTHING, *elsewhere.WITHOUT_TORCH])
def test_the_chosen_tests_are_there(place: str) -> None:
    assert (elsewhere.ROOT / place.partition("::")[0]).is_file()
