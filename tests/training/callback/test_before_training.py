"""The line in a log file on the measurement before the first step."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from leakage_tasks.canaries import make_canaries
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.training.callback.before_training import announce_baseline
from tests.training.callback.training_runs import looks, watched


class Timed:
    """A model that takes three seconds to score texts."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.texts: list[int] = []

    def log_perplexity(self, texts: list[str]) -> None:
        self.seconds += 3.0
        self.texts.append(len(texts))


def test_the_time_is_extrapolated_from_a_few_texts(capsys: pytest.CaptureFixture[str]) -> None:
    model: Any = Timed()
    announce_baseline(model, make_canaries("pin {unique} {digits:1}", 40), 32, lambda: model.seconds)
    words = "ExposureCallback: measuring 40 canaries before the first step, each with up to 32 sequences"
    # After a first text, 32 texts took 3 s; 40 canaries have 10 fillings each.
    assert (model.texts, capsys.readouterr().err) == ([1, 32], f"{words}: up to about 38 s\n")


def test_an_error_shows_no_natural_secret() -> None:
    class Failing:
        def log_perplexity(self, texts: list[str]) -> None:
            raise ValueError(f"cannot read {texts[0]}")

    model: Any = Failing()
    made = [replace(canary, kind="natural", seed=None) for canary in make_canaries("pin {unique} {digits:6}", 1)]
    with pytest.raises(LeakageError, match="its message is hidden") as error:
        announce_baseline(model, made, 32)
    assert made[0].text not in str(error.value)


@pytest.mark.parametrize(("is_terminal", "baseline", "lines"), [(False, 32, 1), (True, 32, 0), (False, 0, 0)])
def test_a_log_file_gets_one_line(tmp_path, monkeypatch, capsys, is_terminal, baseline, lines):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    watched(tmp_path, watch={"baseline": baseline}, disable_tqdm=False)
    assert capsys.readouterr().err.count("ExposureCallback: measuring 3 canaries before the first step") == lines


def test_a_log_file_gets_a_line_for_each_later_measurement(tmp_path, capsys):
    trainer = watched(tmp_path, watch={"baseline": 0})
    steps = [int(look["step"]) for look in looks(trainer)]
    # Bars that other code of the process has open may write before a line.
    assert re.findall(r"ExposureCallback: measuring .*", capsys.readouterr().err) == [
        f"ExposureCallback: measuring 3 canaries at step {step}" for step in steps
    ]
