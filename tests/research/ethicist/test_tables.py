"""What the studies of Ethicist make of trials that are known, without a model."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.metrics.aggregates import Guessed
from leakage_tasks.metrics.aggregates import early_stop as early_stop_of
from leakage_tasks.research.ethicist import beyond as ethicist_beyond
from leakage_tasks.research.ethicist import figures as ethicist_figures
from leakage_tasks.research.ethicist import tables as ethicist
from leakage_tasks.research.ethicist.guesses import (
    MeasureContrast,
    contrast,
    difference,
    early_stop,
    mean_of,
    recall,
    value,
)
from leakage_tasks.research.ethicist.trials import (
    DECODINGS,
    by_setting,
    decoded,
    shortened,
    tuned,
    unsmoothed,
    untuned,
)
from leakage_tasks.research.ethicist.victims import pairs_of
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from tests.research.stored import verdicts

SMALL = StudyPlan("small")
PAIRS = 200
CONFIDENCES = ("perplexity", "comparing_lm", "zlib", "lowercase", "calibrated", "trained")


def guesses(
    share: float, order: float = 1.0, repeats: tuple[int, int] = (90, 8), stream: int = 0
) -> dict[str, list[Any]]:
    """Columns of one confidence: the first ``share`` of the pairs right; ``order`` 1 puts them first, −1 last."""
    rng = np.random.default_rng(stream)
    right = np.arange(PAIRS) < share * PAIRS
    sure = 0.5 + order * np.where(right, 0.3, -0.3) + rng.uniform(-0.2, 0.2, PAIRS)
    place = [1 if hit else 2 if number < round((share + 0.06) * PAIRS) else None for number, hit in enumerate(right)]
    columns = {"right": right.astype(int), "confidence": sure, "of_headline": sure, "bits": rng.uniform(1, 50, PAIRS)}
    counts = np.where(right, *repeats)
    return {name: column.tolist() for name, column in {**columns, "count": counts}.items()} | {"place": place}


def trial(config: Config, share: float, **by_confidence: Any) -> StudyTrial:
    """A trial where every confidence and view has the same guesses, but for those that are given."""
    own = {name: guesses(share) for name in CONFIDENCES} | by_confidence
    sweeps = {"prefix_lengths": "prefix", "suffix_lengths": "suffix", "sample_counts": "samples"}
    names = [f"{sweeps[name]}_{number}" for name, numbers in config["sweeps"].items() for number in numbers]
    p_z = [1.0 if number < round((share + 0.06) * PAIRS) else 90.0 for number in range(PAIRS)]
    found = {"views": dict.fromkeys(["none", *names], own), "p_z_bits": p_z, "suffix": 50, "nodes": 0.1}
    return StudyTrial(config, {**found, "tuning": None}, 1.0)


def with_views(given: StudyTrial, **views: dict[str, list[Any]]) -> StudyTrial:
    """The trial with other guesses, by all confidences, in some of its views."""
    changed = {name: dict.fromkeys(CONFIDENCES, own) for name, own in views.items()}
    return replace(given, result={**given.result, "views": {**given.result["views"], **changed}})


@pytest.mark.parametrize("ordered_by", [None, "perplexity"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_early_stop_is_that_of_the_task(share, ordered_by):
    found = trial(
        untuned(SMALL, 0), share, calibrated=guesses(share, 0.1, stream=1), perplexity=guesses(share, 0.2, stream=2)
    )
    own, by = (found.result["views"]["none"][name] for name in ("calibrated", ordered_by or "calibrated"))
    rows = zip(own["right"], by["of_headline"], own["bits"], range(PAIRS), strict=True)
    expected = early_stop_of(PAIRS // 10)([Guessed(bool(right), *rest) for right, *rest in rows])
    assert value(found, early_stop(ordered_by=ordered_by)) == expected


@pytest.mark.parametrize(("pairs", "found_before"), [(15, 2), (2000, 200)])
def test_a_study_allows_as_many_wrong_guesses_as_the_task(pairs, found_before):
    """Every third guess is wrong: two are right before the only one allowed of 15, 200 before the hundredth."""
    right = [n % 3 < 2 for n in range(pairs)]
    columns = {"right": right, "confidence": [-n for n in range(pairs)], "bits": [1.0] * pairs}
    found = StudyTrial(untuned(SMALL, 0), {"views": {"none": {"calibrated": columns}}}, 1.0)
    task = early_stop_of()([Guessed(hit, -n, 1.0, n) for n, hit in enumerate(right)])
    assert early_stop()(found, np.ones((1, pairs)))[0] == task == found_before / pairs


def test_pairs_drawn_anew_are_counted_as_often_as_they_were_drawn():
    found = trial(untuned(SMALL, 0), 0.5, calibrated=guesses(0.5, 0.1, stream=3))
    times = np.random.default_rng(0).multinomial(PAIRS, np.full(PAIRS, 1 / PAIRS))
    own = found.result["views"]["none"]["calibrated"]
    rows = itertools.chain.from_iterable([number] * count for number, count in enumerate(times))
    drawn = [Guessed(bool(own["right"][n]), own["confidence"][n], own["bits"][n], k) for k, n in enumerate(rows)]
    expected = early_stop_of(PAIRS // 10)(drawn)
    assert early_stop()(found, times[None].astype(float))[0] == pytest.approx(expected, abs=0.011)


def test_a_difference_has_the_interval_of_paired_pairs():
    one, other = ([trial(untuned(SMALL, seed), share) for seed in range(3)] for share in (0.5, 0.4))
    found = difference((one, recall()), (other, recall()))
    # 20 pairs of 200 differ, all one way: the standard error of their share is sqrt(0.1 · 0.9 / 200).
    reach = 1.96 * np.sqrt(0.1 * 0.9 / PAIRS)
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == (pytest.approx(0.1 - reach, abs=0.01), pytest.approx(0.1 + reach, abs=0.01))


def test_a_difference_has_the_p_of_paired_pairs():
    one, other = ([trial(untuned(SMALL, 0), share)] for share in (0.515, 0.5))
    # Three pairs of 200 differ, all one way.
    z = 0.015 / np.sqrt(0.015 * 0.985 / PAIRS)
    assert difference((one, recall()), (other, recall())).p == pytest.approx(2 * stats.norm.sf(z), abs=0.01)
    assert difference((one, recall()), (one, recall())).p == 1


def test_seeds_that_disagree_widen_the_interval():
    shares = [0.2, 0.5, 0.8]
    wide, base = ([trial(untuned(SMALL, seed), share) for seed, share in enumerate(own)] for own in (shares, [0.5] * 3))
    found = difference((wide, recall()), (base, recall()))
    assert found.value == pytest.approx(0.0)
    assert found.high - found.low > 0.3


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 0.2, True), (-0.2, -0.1, False), (-0.1, 0.1, None), (0, 0, None)]
)
def test_a_contrast_tells_by_its_interval(low, high, verdict):
    assert MeasureContrast((low + high) / 2, low, high).above() is verdict


def test_what_is_not_measured_cannot_be_told():
    trials = [trial(tuned(SMALL, 0), 1.0)]
    found = contrast((1.0, trials, mean_of("count", right=True)), (-1.0, trials, mean_of("count", right=False)))
    assert found.above() is None
    assert str(found) == "not measured"


def table_2(untuned_share: float, tuned_share: float, plain_share: float, order: float):
    blind = {"perplexity": guesses(tuned_share, order, stream=1)}
    made = [(untuned, untuned_share, {}), (tuned, tuned_share, blind), (unsmoothed, plain_share, {})]
    return ethicist.table_2(
        [trial(make(SMALL, seed), share, **more) for make, share, more in made for seed in range(3)], SMALL
    )


@pytest.mark.parametrize(("lower", "higher", "verdict"), [(0.3, 0.5, True), (0.5, 0.3, False), (0.4, 0.4, None)])
def test_claims_of_table_2_follow_the_trials(lower, higher, verdict):
    found = verdicts(table_2(lower, higher, lower, order=1.0))
    assert found["tuning a prompt lifts recall and early stop: recall"] is verdict
    assert found["the smoothing loss lifts recall"] is verdict
    assert found["Ethicist beats all baselines by far: recall"] is verdict


@pytest.mark.parametrize(("order", "verdict"), [(-1.0, True), (1.0, None)])
def test_the_same_guesses_are_ordered_by_either_confidence(order, verdict):
    words = "guesses ordered by calibrated confidence give a higher recall_early_stop than by perplexity"
    assert verdicts(table_2(0.3, 0.5, 0.4, order))[words] is verdict


def test_table_2_has_mean_and_deviation_of_its_settings():
    shares = {untuned: (0.3, 0.3, 0.3), tuned: (0.4, 0.5, 0.6), unsmoothed: (0.4, 0.4, 0.4)}
    report = ethicist.table_2(
        [
            trial(m, own[s])
            for m, s, own in ((make(SMALL, s), s, own) for make, own in shares.items() for s in range(3))
        ],
        SMALL,
    )
    rows = {row["method"]: row for row in report.rows}
    cell = rows["Ethicist"]["recall"]
    assert (cell.value, cell.sd, cell.count) == (pytest.approx(0.5), pytest.approx(0.1), 3)
    assert rows["Perplexity"]["recall"].value == pytest.approx(0.3)
    assert rows["w/o smooth"]["recall"].value == pytest.approx(0.4)
    assert rows["Ethicist"]["recall, published"].value == 0.628


def test_settings_are_told_apart_and_seeds_in_order():
    trials = [trial(make(SMALL, seed), 0.5) for seed in (2, 0, 1) for make in (unsmoothed, tuned, untuned)]
    found = by_setting(trials)
    assert [[each.config["seed"] for each in own] for own in found.values()] == [[0, 1, 2]] * 3
    assert found["smooth"][0].config == tuned(SMALL, 0)
    assert found["plain"][0].config == unsmoothed(SMALL, 0)


def test_the_tables_share_their_trials():
    lists = [ethicist.table_2_trials, ethicist.table_3_trials, ethicist.table_4_trials]
    lists += [ethicist_figures.main_trials]
    assert [tuned(SMALL, 0) in trials(SMALL) for trials in lists] == [True] * 4
    assert decoded(SMALL, 0, "top-p") == tuned(SMALL, 0)


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_seeds_leave_model_and_split_alone(scale):
    first, second = (tuned(StudyPlan(scale), seed) for seed in (0, 1))
    assert {name for name in first if first[name] != second[name]} == {"seed"}


def test_table_3_follows_the_decodings():
    shares = {"greedy": 0.2, "beam": 0.6, "top-k": 0.4, "top-p": 0.4}
    found = ethicist.table_3(
        [trial(decoded(SMALL, s, name), shares[name]) for name in DECODINGS for s in range(3)], SMALL
    )
    held = verdicts(found)
    assert held["greedy search does worst on both measures: recall"] is True
    assert held["beam search beats top-p on recall"] is True
    assert held["top-p beats beam search on early stop"] is False
    assert held["top-p beats top-k on early stop"] is None
    assert [row["recall"].value for row in found.rows] == pytest.approx(list(shares.values()))


@pytest.mark.parametrize(("wrong", "verdict"), [(8, True), (80, False)])
def test_table_4_tells_right_from_wrong(wrong, verdict):
    columns = guesses(0.5, repeats=(90, wrong))
    report = ethicist.table_4([trial(tuned(SMALL, s), 0.5, calibrated=columns) for s in range(3)], SMALL)
    assert verdicts(report)["right suffixes are drawn far more often: at least twice as often as wrong ones"] is verdict
    cells = {row["feature"]: row for row in report.rows}
    assert (cells["average repeat time"]["right"].value, cells["average repeat time"]["wrong"].value) == (90, wrong)
    assert [cells[f"recall@{k}"]["all"].value for k in (1, 3, 100)] == pytest.approx([0.5, 0.56, 0.56])
    nats = np.mean(columns["bits"][:100]) * np.log(2) / 50
    assert cells["average loss (nats a token)"]["right"].value == pytest.approx(nats)


def sweep(make: Any, name: str, shares: dict[int, float]) -> list[StudyTrial]:
    """Trials with and without a prompt whose recall at each place of a sweep is given."""
    views = {f"{name}_{place}": guesses(share) for place, share in shares.items()}
    return [with_views(trial(make(seed, prompt), 0.5), **views) for prompt in (False, True) for seed in range(3)]


@pytest.mark.parametrize("rising", [True, False])
def test_figure_4_follows_the_prefix(rising):
    shares = dict(zip((10, 20, 30, 40, 50), sorted((0.1, 0.2, 0.3, 0.4, 0.5), reverse=not rising), strict=True))
    report = ethicist_figures.figure_4(sweep(lambda s, p: shortened(SMALL, s, p), "prefix", shares), SMALL)
    assert verdicts(report)["extraction grows with the prefix: recall of Ethicist"] is rising
    shown = [row["recall"].value for row in report.rows if row["method"] == "Ethicist"]
    assert shown == pytest.approx(list(shares.values()))


def test_figure_5_tells_falling_and_slowing():
    shares = dict(zip((1, 5, 10, 20, 30, 40), (1.0, 0.9, 0.8, 0.6, 0.55, 0.52), strict=True))
    made = sweep(lambda s, p: tuned(SMALL, s) if p else untuned(SMALL, s), "suffix", shares)
    found = verdicts(ethicist_figures.figure_5([with_views(each, suffix_50=guesses(0.5)) for each in made], SMALL))
    assert found["extraction falls as the suffix grows: recall of Perplexity"] is True
    assert found["it falls ever more slowly: recall of Ethicist per token, beyond 20 tokens against before"] is True
    assert found["it falls most slowly with Ethicist: recall_early_stop per token"] is None


def test_figure_8_tells_what_more_draws_bring():
    shares = {1: 0.2, 2: 0.3, 5: 0.4, 10: 0.48, 20: 0.49, 50: 0.5}
    made = sweep(lambda s, p: tuned(SMALL, s) if p else untuned(SMALL, s), "samples", shares)
    report = ethicist_figures.figure_8(made, SMALL)
    found = verdicts(report)
    assert found["recall grows fast from 1 to 10 draws: recall of Ethicist from 1 to 10 draws"] is True
    assert found["Ethicist's recall still grows, slowly, up to 100: less than from 1 to 10"] is True
    assert [row["draws"] for row in report.rows[:7]] == [1, 2, 5, 10, 20, 50, 100]


def test_figure_3_wants_every_step_up():
    sizes = [each["size"] for each in ethicist_figures.size_trials(SMALL)[::6]]
    shares = dict(zip(sizes, (0.1, 0.4, 0.4), strict=True))
    trials = [trial(each, shares[each["size"]]) for each in ethicist_figures.size_trials(SMALL)]
    found = verdicts(ethicist_figures.figure_3(trials, SMALL))
    assert len(set(sizes)) == 3
    assert found["larger models leak more: recall of Ethicist"] is None


@pytest.mark.parametrize(("places", "verdict"), [([1, 1], True), ([None, None], False)])
def test_recall_is_foretold_or_not(places, verdict):
    # Suffixes with a p_z of one half are drawn for certain in 100 draws.
    columns = guesses(0.5)
    columns["place"] = [places[0] if bits == 1.0 else None for bits in trial(untuned(SMALL, 0), 0.5).result["p_z_bits"]]
    trials = [trial(make(SMALL, s), 0.5, calibrated=columns) for make in (untuned, tuned) for s in range(3)]
    report = ethicist_beyond.probability_report(trials, SMALL)
    assert [claim.holds for claim in report.claims] == [verdict] * 2
    last = report.rows[6]
    assert last["draws"] == 100
    assert last["expected"].value == pytest.approx(0.56)


def test_expected_shares_are_those_of_single_draws():
    made = [trial(untuned(SMALL, 0), 0.5)]
    found = ethicist_beyond.expected_share(made, 2)
    # 112 of 200 suffixes at one half: three quarters of them are drawn in two draws.
    assert found.value == pytest.approx(0.75 * 112 / 200)
    assert found.low == pytest.approx(found.value - 1.96 * np.sqrt(112 * 0.1875) / 200, abs=0.01)


def test_a_trained_confidence_is_set_against_the_calibrated_one():
    better = guesses(0.6)
    trials = [trial(tuned(SMALL, s), 0.5, trained=better) for s in range(3)]
    report = ethicist_beyond.confidence_report(trials, SMALL)
    assert verdicts(report)["trained confidence picks more right guesses than calibrated"] is True
    assert {row["confidence"] for row in report.rows} >= {"Trained", "Calibrated", "Perplexity"}


def test_missing_public_pairs_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("LEAKAGE_DATA", raising=False)
    with pytest.raises(LeakageError, match="the public pairs are missing: set LEAKAGE_DATA"):
        pairs_of(untuned(SMALL, 0), tmp_path)
