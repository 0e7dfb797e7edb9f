"""``leakage plot`` from the command line."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest

from leakage_tasks.attacks.suffix.finding import Likeness, SuffixFinding, SuffixView
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION, SUFFIXES, WINDOWS
from leakage_tasks.report.load.training_log import EpochExposure
from leakage_tasks.report.plots.findings import prefixes_of
from leakage_tasks.stats import skew_normal
from leakage_tasks.stats.intervals import clopper_pearson
from tests.report.logged import choice, finding, log, suffix
from tests.report.pages import usual_canaries, write_run

COSTS = {"costs": np.random.default_rng(0).normal(60, 8, 100).round(4).tolist()}


@pytest.fixture
def plot(leakage):
    """``leakage plot`` with arguments: exit code, stdout and stderr."""
    return partial(leakage, "plot")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(skew_normal, "RESAMPLES", 19)
    canaries = [finding(f"c{n}", 10.0 ** (n % 6), n % 3, extra=COSTS) for n in range(12)]
    pairs = [suffix(n, {"calibrated": choice(n % 2 == 0, -n), "zlib": choice(n < 3, n)}) for n in range(20)]
    windows = [window(pair) for pair in (*range(9), *range(-6, 0))]
    log(tmp_path / "runs", {EXPOSURE: canaries, EXTRACTION: canaries, SUFFIXES: pairs, WINDOWS: windows})
    return tmp_path


def window(pair: int) -> SuffixFinding:
    """A window at two lengths of the prefix, written verbatim after the longer one by every third."""
    lengths = {"none": 8, "prefix_4": 4}
    views = {
        name: SuffixView(
            length,
            5,
            1,
            1,
            9.0,
            None,
            False,
            {"frequency": choice(False, 1.0)},
            likeness=Likeness(5, 5, 0 if length == 8 and pair % 3 == 0 else 3, 3, 5, 2, 1, 0, 5),
        )
        for name, length in lengths.items()
    }
    return SuffixFinding(pair, "greedy", 1, "frequency", views, document=abs(pair), access="text")


KINDS = ["epochs", "repetitions", "histogram", "recall", "prefixes"]


def test_without_an_ending_both_pictures_are_written(plot, folder):
    code, out, _ = plot("prefixes", folder / "runs", "-o", folder / "picture")
    assert (code, out) == (0, f"wrote {folder}/picture.png\nwrote {folder}/picture.svg\n")
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "picture.svg").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_an_ending_writes_that_one_the_same_every_time(plot, folder, kind):
    for name in ("one.svg", "again.svg"):
        assert plot(kind, folder / "runs", "-o", folder / name)[0] == 0
    assert (folder / "one.svg").read_bytes() == (folder / "again.svg").read_bytes()
    assert not list(folder.glob("*.png"))


def test_shares_by_prefix_have_intervals_by_document(folder):
    exact, near, controls = prefixes_of([folder / "runs"])
    assert [curve.name for curve in (exact, near, controls)] == ["exact", "approximate", "approximate, controls"]
    assert [(share.length, share.value) for share in exact.shares] == [(4, 0), (8, 3 / 9)]
    assert (exact.shares[1].low, exact.shares[1].high) == pytest.approx(clopper_pearson(3, 9))
    assert [(share.length, share.value) for share in controls.shares] == [(4, 0), (8, 2 / 6)]


def test_the_chosen_columns_are_drawn_against_each_other(plot, tmp_path):
    for name, leak in (("a", 0.9), ("b", 0.2)):
        write_run(tmp_path / "runs", name, usual_canaries(leak, each=2), useful={"arc": leak, "hella": 0.5})
    assert plot("trade", tmp_path / "runs", "--across", "hella acc", "--up", "HDT", "-o", tmp_path / "x.svg")[0] == 0
    text = (tmp_path / "x.svg").read_text()
    assert "hella acc (higher is better)" in text
    assert ">HDT (" in text


def test_a_history_of_epochs_is_drawn(plot, tmp_path):
    points = [asdict(EpochExposure(epoch, "c", 1, 4.0, 20.0)) for epoch in (1, 2)]
    (tmp_path / "exposure_by_epoch.json").write_text(json.dumps({"exposures": points}))
    code, _, _ = plot("epochs", tmp_path / "exposure_by_epoch.json", "-o", tmp_path / "plot.svg")
    assert code == 0
    assert ">epoch<" in (tmp_path / "plot.svg").read_text()


def test_the_log_of_a_trainer_is_drawn_over_epochs_or_steps(plot, tmp_path):
    entry = {"leakage/exposure_x10": 4.0, "leakage/exposure_bound": 20.0}
    log = [{**entry, "epoch": n, "step": 50 * n} for n in (1, 2)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    for name, words, more in (("epoch", "epoch", []), ("step", "step", ["--steps"])):
        assert plot("training", tmp_path, "-o", tmp_path / f"{name}.svg", *more)[0] == 0
        assert f">{words}<" in (tmp_path / f"{name}.svg").read_text()


def test_no_plot_shows_what_a_run_revealed_of_a_natural_secret(plot, tmp_path):
    """The guesses of a run with reveal=true hold the secret."""
    from leakage_tasks.attacks.finding import Guess

    guess = Guess(("4", "2"), "my pin is 42-sesame", 3.0)
    one = finding("someone", kind="natural", guesses=(guess,), extra=COSTS)
    log(tmp_path / "runs", {EXPOSURE: [one], EXTRACTION: [one]})
    for kind in ("epochs", "repetitions"):
        assert plot(kind, tmp_path / "runs", "-o", tmp_path / f"{kind}.svg")[0] == 0
        assert "sesame" not in (tmp_path / f"{kind}.svg").read_text()


def test_where_a_natural_secret_lies_among_its_fillings_is_not_drawn(plot, tmp_path):
    log(tmp_path / "runs", {EXPOSURE: [finding("someone", kind="natural", extra=COSTS)]})
    code, _, err = plot("histogram", tmp_path / "runs", "-o", tmp_path / "histogram.svg")
    assert code == 2
    assert "'someone' is natural, and its rank among its fillings would confirm a guess" in err
    assert not (tmp_path / "histogram.svg").exists()


def test_a_histogram_of_one_canary(plot, folder):
    assert plot("histogram", folder / "runs", "--canary", "c4", "-o", folder / "plot.svg")[0] == 0
    text = (folder / "plot.svg").read_text()
    assert "c4, planted once" in text
    assert text.count("log-perplexity of the filled text (bits)") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["epochs", "runs", "-o", "x.pdf"], "--output x.pdf: use a name that ends in .png or .svg"),
        # Before anything is read.
        (
            ["recall", "nothing", "-o", "nowhere/x.png"],
            "nowhere/x.png: cannot be written (no folder 'nowhere')",
        ),
        (["recall", "runs", "-o", "runs"], "--output runs: is a folder: give a file, such as plot.png"),
        (["recall", "nothing", "-o", "x"], "nothing: no such file or folder: give a file that lm_eval wrote"),
        (["histogram", "runs", "--canary", "z", "-o", "x"], "--canary z: no such canary: choose from c0, c1"),
        (["epochs", "some.json", "runs", "-o", "x"], "some.json: is a history of epochs, which has a plot of its own"),
        (["epochs", "some.json", "-o", "x"], "some.json: cannot be read"),
        (["training", "some.json", "-o", "x"], "some.json: cannot be read"),
        (["trade", "runs", "-o", "x"], "--across: no run has such a column: add other runs"),
    ],
)
def test_what_can_be_put_right_is_one_line(plot, folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    code, out, err = plot(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"leakage: {words}")
    assert err.count("\n") == 1
    assert not [*folder.glob("x*"), *folder.glob(".*")]
