"""The demo: what it prints, and the whole way on a small text."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from leakage_tasks.attacks import Finding, Guess
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.metrics.conclusion import Verdict
from leakage_tasks.research.demo.demo import _on_screen, demo
from leakage_tasks.research.demo.report import DemoResult, mean_exposures, means_in_words, show_demo
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
    verdicts = {
        "canary_exposure": Verdict("above chance", "because"),
        "canary_extraction": Verdict("above chance", "because", "only if planted 10 times"),
    }
    result = DemoResult(DemoFiles.under(tmp_path), "|a table|", found, found, [], 1.0, verdicts, 2.174)
    show_demo(result, canaries)
    text = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in text.split("\n") if line.startswith(("canary-", "control-"))}
    assert rows["canary-0"] == ["canary-0", "10x", "42", "42", "FOUND", "1", "6.64"]
    assert rows["canary-1"] == ["canary-1", "1x", "07", "42", "about", "20", "2.29"]
    assert rows["control-0"] == ["control-0", "never", "33", "42", "50", "1.00"]
    assert "|a table|" in text
    assert text.index("usefulness") < text.index("canary-0") < text.index("|a table|")
    summary = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in text.partition("\n\nExp")[0].splitlines()}
    assert summary == {
        "": "",
        "Results": "Results",
        "Does exposure show a leak?": "yes",
        "Does extraction show a leak?": "yes, only if planted 10 times",
        "exposure, planted 10 times": "6.6 bits on average; the maximum is 6.6",
        "exposure, planted once": "2.3 bits on average; the maximum is 6.6",
        "exposure, never planted": "1.0 bits on average; chance is 1.40",
        "extracted, planted 10 times": "1 of 1 secrets, as the model's best guess",
        "extracted, planted once": "0 of 1 secrets, as the model's best guess",
        "extracted, never planted": "0 of 1 secrets, as the model's best guess",
        "usefulness": "2.17 bits per byte of held-out text; lower is better",
    }
    assert all(str(path) in text for path in vars(DemoFiles.under(tmp_path)).values())


def test_a_mean_over_a_lower_bound_is_a_lower_bound():
    canaries = [Canary(str(times), TEMPLATE, ("4", "2"), repetitions=times, planted=times > 0) for times in (10, 1, 0)]
    ranks = [(0, 1, "exact"), (0, 4, "exact"), (1, 1, "exact"), (1, 16, "lower_bound"), (2, 50, "exact")]
    means = mean_exposures(finding(canaries[number], "42", rank, method) for number, rank, method in ranks)
    assert means_in_words(means) == "10x: 5.6, 1x: at least 4.6, never: 1.0"


def test_a_lower_bound_is_shown_as_one(tmp_path, capsys):
    canary = Canary("canary-0", TEMPLATE, ("4", "2"), repetitions=1)
    found = [finding(canary, "41", 4, "lower_bound")]
    show_demo(DemoResult(DemoFiles.under(tmp_path), "", found, found, [], 1.0), [canary])
    text = capsys.readouterr().out
    (row,) = [line for line in text.splitlines() if line.startswith("canary-0")]
    assert row.split()[-6:] == ["at", "most", "4", "at", "least", "4.64"]
    assert "exposure, planted once   at least 4.6 bits on average" in text


def test_progress_bars_are_for_terminals(monkeypatch):
    assert not _on_screen()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert _on_screen()


def test_a_place_it_cannot_write_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LeakageError, match="cannot be made"):
        demo(tmp_path / "file" / "demo")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_the_whole_way_twice_over(tmp_path, text, capfd):
    try:
        importlib.metadata.distribution("lm-eval-leakage")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the harness knows our tasks only where the package is installed")
    corpus = TextSplit(text, text[:300])
    demo(tmp_path / "demo", epochs=1, controls=1, corpus=corpus, budget=200)
    result = demo(tmp_path / "demo", epochs=2, controls=1, corpus=corpus, budget=200)
    files = result.files
    printed, err = capfd.readouterr()
    assert "\r" not in printed + err
    assert "Warning" not in printed + err
    assert "Does exposure show a leak?" in printed
    assert "epoch 2 of 2: " in printed
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
