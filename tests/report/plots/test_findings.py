"""What each plot is drawn from, out of saved findings."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from leakage_tasks.attacks.finding import CONTEXT
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.core.null_results import null_result
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION, SUFFIXES
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.plots.findings import costs_of, epochs_of, recall_of, repetitions_of
from leakage_tasks.report.plots.repetitions import ABSENT, CONTEXT_ONLY
from tests.report.logged import SIZE, choice, finding, log, suffix
from tests.report.made import STAMP
from tests.report.pages import canary, write_run

RANKS = {"c1": (4.0, 1), "c2": (1.0, 10), "c3": (1000.0, 1), "k1": (9e5, 0), "k2": (5e5, 0), "k3": (10.0, 0)}


def findings(**fields):
    return [finding(name, rank, times, **fields) for name, (rank, times) in RANKS.items()]


def costs(**fields):
    return findings(extra={"costs": [1.0, 2.0, 3.0]}, **fields)


def test_each_run_is_an_epoch_in_the_order_given(tmp_path):
    for name, rank in (("second", 4.0), ("first", 16.0)):
        log(tmp_path / name, {EXPOSURE: [finding("a", rank), finding("k", 1e6, 0)]})
    points = epochs_of([tmp_path / "first", tmp_path / "second"])
    assert [(each.epoch, each.canary, each.repetitions) for each in points] == [
        (1, "a", 1), (1, "k", 0), (2, "a", 1), (2, "k", 0)
    ]  # fmt: skip
    assert [each.exposure for each in points] == pytest.approx(
        [math.log2(SIZE / rank) for rank in (16, 1e6, 4, 1e6)], abs=1e-9
    )


def test_a_checkpoint_without_exposures_does_not_move_the_later_ones(tmp_path):
    for name in ("one", "two", "three"):
        log(tmp_path / name, {EXPOSURE: [finding("a")]})
    path = tmp_path / "two" / f"samples_{EXPOSURE}_{STAMP}.jsonl"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"resps": [[null_result("no data")]]}) + "\n")
    with pytest.raises(OptionError, match="two: has no exposure, so later checkpoints would move forward: leave it"):
        epochs_of([tmp_path / "one", tmp_path / "two", tmp_path / "three"])


@pytest.mark.parametrize("adapter", [False, True])
def test_checkpoints_of_one_folder_are_in_the_order_of_their_steps(tmp_path, adapter):
    """By their names as text, checkpoint-1000 would come before checkpoint-50, and a rising exposure would fall."""
    for rank, step in ((4096, 50), (64, 200), (1, 1000)):
        model = "base" if adapter else f"out/checkpoint-{step}"
        file = write_run(tmp_path / str(1000 - step), model, [canary("one", rank=rank)])
        if adapter:
            content = json.loads(file.read_text())
            content["config"]["model_args"]["peft"] = f"out/checkpoint-{step}"
            file.write_text(json.dumps(content))
    exposures = [point.exposure for point in epochs_of([tmp_path])]
    assert exposures == pytest.approx([math.log2(10**6 / rank) for rank in (4096, 64, 1)])


def test_repetitions_have_exposures_and_what_was_extracted(tmp_path):
    found = findings(method="lower_bound")
    log(tmp_path / "a", {EXPOSURE: found, EXTRACTION: findings()})
    (run,) = repetitions_of([tmp_path])
    assert [(each.canary, each.repetitions, each.bound) for each in run.exposures] == [
        (each.canary, each.repetitions, True) for each in found
    ]
    assert run.extracted == {0: [False] * 3, 1: [False, False], 10: [True]}


def test_near_copies_count_as_copies_in_every_plot(tmp_path):
    near = [replace(finding("a", extra={"costs": [1.0]}), near=15)]
    log(tmp_path / "a", {EXPOSURE: near, EXTRACTION: near})
    (run,) = repetitions_of([tmp_path])
    assert [point.repetitions for point in (*run.exposures, *epochs_of([tmp_path]))] == [16] * 2
    assert [panel.planting for panel in costs_of([tmp_path])] == ["planted 16 times"]
    assert list(run.extracted) == [16]


@pytest.mark.parametrize(
    ("reading", "group", "tier"), [("context", CONTEXT_ONLY, CONTEXT), ("absent", ABSENT, None), ("", 4, 4)]
)
def test_what_training_did_not_learn_from_is_not_among_its_copies(tmp_path, reading, group, tier):
    found = [replace(finding("a", extra={"costs": [1.0]}), reading=reading, repetitions=4)]
    log(tmp_path / "a", {EXPOSURE: found, EXTRACTION: found})
    (run,) = repetitions_of([tmp_path])
    assert ([point.repetitions for point in run.exposures], list(run.extracted)) == ([group], [group])
    assert [point.tier for point in epochs_of([tmp_path])] == [tier]
    assert [panel.planting for panel in costs_of([tmp_path])] == [planted_words(tier)]


def test_a_finding_without_a_rank_is_no_point(tmp_path):
    log(tmp_path / "a", {EXPOSURE: [finding("a"), finding("b", None)]})
    assert [each.canary for each in repetitions_of([tmp_path])[0].exposures] == ["a"]


def test_a_histogram_shows_the_extremes_and_the_control_in_the_middle(tmp_path):
    log(tmp_path / "a", {EXPOSURE: costs()})
    panels = costs_of([tmp_path])
    assert [panel.name for panel in panels] == ["c2", "c3", "k2"]
    assert panels[0].exposure == pytest.approx(math.log2(SIZE))
    assert (panels[0].secret_cost, panels[0].words) == (20.0, "log-perplexity of the filled text (bits)")


def test_a_histogram_of_few_canaries_has_as_many_panels(tmp_path):
    log(tmp_path / "a", {EXPOSURE: [finding("a", extra={"costs": [1.0]})]})
    assert [panel.name for panel in costs_of([tmp_path])] == ["a"]


def test_a_histogram_shows_the_canaries_asked_for_in_that_order_and_in_every_run(tmp_path):
    for name in "ab":
        log(tmp_path / name, {EXPOSURE: costs()})
    panels = costs_of([tmp_path], ["k1", "c1", "k1"])
    assert [panel.name for panel in panels] == ["a: k1", "a: c1", "b: k1", "b: c1"]


def test_on_classifiers_the_costs_are_the_class_loss(tmp_path):
    one = finding("a", attack="class-loss", log_perplexity=None, extra={"costs": [1.0], "class_loss": 0.25})
    log(tmp_path / "a", {EXPOSURE: [one]})
    (panel,) = costs_of([tmp_path])
    assert (panel.secret_cost, panel.words) == (0.25, "class loss (bits)")


def test_findings_without_costs_say_how_to_get_them(tmp_path):
    log(tmp_path / "a", {EXPOSURE: findings()})
    with pytest.raises(ResultsError, match="has no costs of random fillings: .*--metadata histogram=2000"):
        costs_of([tmp_path])


@pytest.mark.parametrize("costs", [[], 3, "12", ["1"], [None]])
def test_damaged_costs_are_refused(tmp_path, costs):
    log(tmp_path / "a", {EXPOSURE: [finding("c", extra={"costs": costs})]})
    with pytest.raises(ResultsError, match="canary 'c': field 'costs': expected a list of numbers: run lm_eval again"):
        costs_of([tmp_path])


def test_an_unknown_canary_is_named_with_those_there_are(tmp_path):
    log(tmp_path / "a", {EXPOSURE: costs()})
    with pytest.raises(OptionError, match="--canary c9: no such canary: choose from c1, c2, c3, k1, k2, k3"):
        costs_of([tmp_path], ["c9"])


def test_an_unknown_canary_among_many_does_not_fill_the_screen(tmp_path):
    log(tmp_path / "a", {EXPOSURE: [finding(f"c{n:03}") for n in range(100)]})
    with pytest.raises(OptionError, match=r"choose from c000, .*c011 and 88 more$"):
        costs_of([tmp_path], ["x"])


def test_more_panels_than_fit_are_refused(tmp_path):
    for name in "abc":
        log(tmp_path / name, {EXPOSURE: costs()})
    with pytest.raises(OptionError, match="9 panels, but at most 6 fit: give fewer runs, or canaries with --canary ID"):
        costs_of([tmp_path])


def pairs(own: str = "calibrated"):
    return [
        suffix(n, {"calibrated": choice(n % 2 == 0, -n), "zlib": choice(n < 3, n)}, own) for n in range(6)
    ] + [suffix(6, {})]  # fmt: skip


def test_controls_are_in_no_line(tmp_path):
    control = suffix(-1, {"calibrated": choice(True, 1), "zlib": choice(True, 1)})
    log(tmp_path / "a", {SUFFIXES: [*pairs(), control]})
    log(tmp_path / "b", {SUFFIXES: pairs()})
    of_both, of_pairs = (recall_of([tmp_path / name]) for name in "ab")
    assert [line.guesses for line in of_both] == [line.guesses for line in of_pairs]


def test_one_run_has_a_line_a_confidence_its_own_first(tmp_path):
    log(tmp_path / "a", {SUFFIXES: pairs("zlib")}, task_settings={"wrong": 2})
    lines = recall_of([tmp_path])
    assert [line.name for line in lines] == ["zlib (the run's own)", "calibrated"]
    assert [guess.right for guess in lines[1].guesses] == [n % 2 == 0 for n in range(6)]
    assert {line.wrong for line in lines} == {2}


def test_several_runs_have_a_line_each_by_their_own_confidence(tmp_path):
    log(tmp_path / "a", {SUFFIXES: pairs("zlib")})
    log(tmp_path / "b", {SUFFIXES: pairs("calibrated")})
    lines = recall_of([tmp_path])
    assert [line.name for line in lines] == ["a", "b"]
    assert [[guess.right for guess in line.guesses] for line in lines] == [
        [n < 3 for n in range(6)],
        [n % 2 == 0 for n in range(6)],
    ]


@pytest.mark.parametrize(
    ("draw", "task"),
    [(epochs_of, EXPOSURE), (repetitions_of, EXPOSURE), (costs_of, EXPOSURE), (recall_of, SUFFIXES)],
)
def test_samples_of_another_kind_are_nothing_to_draw(tmp_path, draw, task):
    log(tmp_path / "a", {EXTRACTION: findings()})
    with pytest.raises(OptionError, match=f"nothing to draw: no samples of {task}: run lm_eval --tasks {task}"):
        draw([tmp_path])
