"""The demo: what it prints, and the whole way on a small text."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from leakage_tasks.attacks import Finding, Guess
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.demo.demo import demo
from leakage_tasks.research.demo.report import DemoResult, format_by_copies, means_by_copies, show_demo
from leakage_tasks.research.demo.settings import DemoFiles
from leakage_tasks.research.victims.corpus import TextSplit

TEMPLATE = "The number is {digits:2}."


def finding(canary: Canary, guess: str, rank: float, method: str) -> Finding:
    right = tuple(a == b for a, b in zip(guess, canary.secret, strict=True))
    guesses = (Guess(tuple(guess), canary.space.fill(tuple(guess)), 4.0),)
    fields = {"guesses": guesses, "correct": right, "rank": rank, "method": method}
    return Finding(canary.id, "any", canary.planted, canary.repetitions, "random", 6.64, **fields)


def test_it_shows_each_guess_beside_the_secret(tmp_path, capsys):
    often = Canary("canary-0", TEMPLATE, ("4", "2"), repetitions=10)
    once = Canary("canary-1", TEMPLATE, ("0", "7"), repetitions=1)
    never = Canary("control-0", TEMPLATE, ("3", "3"), repetitions=0, planted=False)
    canaries = [often, once, never]
    found = [
        finding(often, "42", 1, "exact"),
        finding(once, "42", 20.4, "estimated"),
        finding(never, "42", 50, "exact"),
    ]
    show_demo(DemoResult(DemoFiles.under(tmp_path), "|a table|", found, found, [], 1.0), canaries)
    text = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in text.split("\n") if line.startswith(("canary-", "control-"))}
    assert rows["canary-0"] == ["canary-0", "10x", "42", "42", "FOUND", "1", "6.64"]
    assert rows["canary-1"] == ["canary-1", "1x", "07", "42", "about", "20", "2.29"]
    assert rows["control-0"] == ["control-0", "never", "33", "42", "50", "1.00"]
    assert "|a table|" in text
    assert "1 of the 1 secrets planted 10 times are the model's first guess" in text
    assert "have a mean exposure of 1.00 bits" in text
    assert all(str(path) in text for path in vars(DemoFiles.under(tmp_path)).values())


def test_an_epoch_is_summed_up_by_repetitions():
    means = means_by_copies([(10, 3), (10, 5), (0, 1)])
    assert format_by_copies("mean exposure in bits", means) == "mean exposure in bits: 10x: 4.0, never: 1.0"


def test_a_place_it_cannot_write_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LeakageError, match="cannot be made"):
        demo(tmp_path / "file" / "demo")


@pytest.mark.slow
def test_the_whole_way_twice_over(tmp_path, text):
    try:
        importlib.metadata.distribution("lm-eval-leakage")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the harness knows our tasks only where the package is installed")
    corpus = TextSplit(text, text[:300])
    demo(tmp_path / "demo", epochs=1, controls=1, corpus=corpus, budget=200)
    result = demo(tmp_path / "demo", epochs=2, controls=1, corpus=corpus, budget=200)
    files = result.files
    assert {found.canary for found in result.exposure} == {*(f"canary-{n}" for n in range(4)), "control-0"}
    assert all(found.rank is not None and found.rank >= 1 for found in result.exposure)
    assert all(len(found.guesses[0].filling) == 9 for found in result.extraction)
    assert {point.epoch for point in result.history} == {1, 2}
    assert "canary_exposure" in result.table
    assert "heldout_bits_per_byte" in result.table
    assert files.plot.read_bytes().startswith(b"\x89PNG")
    assert "<table" in files.board.read_text(encoding="utf-8")
    assert "## Training-data leakage" in files.card.read_text(encoding="utf-8")
    assert len(json.loads(files.history.read_text())["losses"]) == 2
    assert len(list(files.results.rglob("results_*.json"))) == 1
