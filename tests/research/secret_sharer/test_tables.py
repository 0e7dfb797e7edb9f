"""What the studies of The Secret Sharer make of trials that are known, without a model."""

import math
from collections import Counter
from typing import Any

import pytest

from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.secret_sharer import extraction as secret_sharer_extraction
from leakage_tasks.research.secret_sharer import figures as secret_sharer_figures
from leakage_tasks.research.secret_sharer import tables as secret_sharer
from leakage_tasks.research.secret_sharer import training as secret_sharer_training
from leakage_tasks.research.secret_sharer.experiment import PAPER, SMALL, WHOLE, Secrets, as_words, planted
from leakage_tasks.research.secret_sharer.trials import mean_bits
from tests.research.stored import verdicts

PLAN = StudyPlan("small")


def exposure(bits: float, method: str = "exact", **more: Any) -> Config:
    """What a measure of exposure finds; its interval is a bit to either side unless exact."""
    reach = 0.0 if method == "exact" else 1.0
    ends = {"low": bits - reach, "high": bits + reach}
    return {"bits": bits, "method": method, "log_perplexity": 40 - bits, "calls": 10, "rejected": False} | ends | more


def entry(bits: float, *, planted: bool = True, known: str | None = None, **more: Any) -> Config:
    """A canary of that exposure, by either measure."""
    own = {"exposure": exposure(bits), "extrapolated": exposure(bits + 1, "extrapolated")}
    return {"canary": "canary-0" if planted else "control-0", "planted": planted, "known": known} | own | more


def trial(
    config: Config, seen: dict[str, list[Config]], losses: Any = ((3.0, 3.0), (2.0, 2.2), (1.5, 2.4))
) -> StudyTrial:
    """A trial with these findings; the second epoch is the best one unless other losses are given."""
    best = min(range(len(losses)), key=lambda place: losses[place][1]) + 1
    found = {"seen": seen, "losses": [list(each) for each in losses], "best": best, "parameters": 620_000}
    return StudyTrial(config, found, 1.0)


def test_secrets_are_planted_as_lines_among_untouched_ones():
    (canaries,) = Secrets(count=2, copies=3, template="{unique} {digits:4}").canaries(0)
    lines = [f"line {n}" for n in range(50)]
    found = planted("\n".join(lines), canaries, 0).split("\n")
    copies = Counter(line for line in found if line not in lines)
    assert copies == {canary.text: 3 for canary in canaries if canary.planted}
    assert [line for line in found if line in lines] == lines


def test_attackers_of_one_model_share_its_secret():
    views = Secrets(template="a {digits:5} b", known=("{digits:5}", None)).canaries(3)
    assert len({view[0].text for view in views}) == 1
    assert [view[0].attack_space.fill(view[0].secret) for view in views][1] == views[0][0].text


def test_words_are_lower_case_with_marks_apart():
    assert as_words("The cat's hat,\nor 12?") == "the cat ' s hat ,\nor 12 ?"


def test_the_papers_scale_is_table_8():
    recipe = PAPER.recipe()
    assert (recipe["optimizer"], recipe["batch_size"], recipe["length"], recipe["epochs"]) == ("rmsprop", 128, 20, 100)
    assert PAPER.copies == 1


@pytest.mark.parametrize("recurrent", [True, False])
def test_table_1_compares_recurrent_with_convolutional_networks(recurrent):
    def bits(name: str) -> float:
        return 20.0 if name.startswith(("gru", "lstm")) == recurrent else 5.0

    trials = [
        trial(config, {"best": [entry(bits(config["recipe"]["architecture"]) + n / 10), entry(1.0, planted=False)]})
        for n, config in enumerate(secret_sharer.table_1_trials(PLAN))
    ]
    report = secret_sharer.table_1(trials, PLAN)
    assert verdicts(report)["recurrent networks memorize more than convolutional ones"] is recurrent
    published = {row["architecture"]: row["exposure, published"] for row in report.rows}
    assert (published["lstm-2x200"].value, published["transformer"]) == (35, None)


def test_table_2_has_the_papers_figure_in_its_place():
    trials = [
        trial(config, {"best": [entry(math.log2(config["recipe"]["batch_size"] * config["recipe"]["units"]))]})
        for config in secret_sharer.table_2_trials(PLAN)
    ]
    report = secret_sharer.table_2(trials, PLAN)
    last = report.rows[-1]
    assert (last["batch"], last["100 units, published"].value, last["200 units, published"].value) == (32, 6.2, 14.1)
    assert set(verdicts(report).values()) == {True}


def test_table_3_takes_each_attackers_figure_from_the_shared_model():
    known = {name: part for name, (_, part, _) in secret_sharer.FORMATS.items()}
    order = list(known)

    def seen(config: Config, epoch: int) -> list[Config]:
        views = config["secrets"]["known"]
        names = [name for name in order if secret_sharer.FORMATS[name][0] == config["secrets"]["template"]]
        return [entry(order.index(name) + epoch, known=part) for name, part in zip(names, views, strict=True)]

    trials = [
        trial(config, {str(epoch): seen(config, epoch) for epoch in (5, 10)})
        for config in secret_sharer.table_3_trials(PLAN)
    ]
    report = secret_sharer.table_3(trials, PLAN)
    assert [row["epoch 10"].value for row in report.rows] == [10 + n for n in range(6)]
    assert [row["epoch 5, published"].value for row in report.rows] == [5.0, 6.3, 5.0, 6.1, 5.1, 5.2]


def test_table_4_counts_secrets_in_first_place():
    def seen(config: Config) -> list[Config]:
        count, copies = config["secrets"]["count"], config["secrets"]["copies"]
        found = [1 if n < count * copies / 10 else None for n in range(count)]
        return [entry(copies + n / 100, **{"shortest-path": {"place": place}}) for n, place in enumerate(found)]

    trials = [trial(config, {"best": seen(config)}) for config in secret_sharer.table_4_trials(PLAN)]
    report = secret_sharer.table_4(trials, PLAN)
    cells = {row["insertions"]: row["20 secrets"] for row in report.rows}
    assert (cells[10].value, cells[1].value) == (1.0, 0.1)
    assert cells[10].count == 20 * SMALL.seeds


def long_run(bits: list[float], losses: list[float], **more: Any) -> list[StudyTrial]:
    """The long run's trials, all with these exposures and validation losses by epoch."""
    found = []
    for config in secret_sharer_figures.long_trials(PLAN):
        seen = {str(n): [entry(each, **more), entry(1.0, planted=False)] for n, each in enumerate(bits, 1)}
        found.append(trial(config, seen, [(loss, loss) for loss in losses]))
    return found


@pytest.mark.parametrize(("rejected", "holds"), [(1, True), (2, False)])
def test_figure_2_judges_the_fits_of_all_canaries(rejected, holds):
    """Of six canaries whose fit is right one at least is rejected at 0.05 in 26 % of cases, two in 3.3 %."""
    config = secret_sharer_figures.long_trials(PLAN)[0]
    fits = [exposure(5.0, "extrapolated", rejected=n < rejected) for n in range(6)]
    costs = [20 + n * n / 999 for n in range(200)]
    runs = [
        trial(
            config, {"best": [entry(5.0, extrapolated=own, costs=costs), entry(2.0, planted=False, extrapolated=other)]}
        )
        for own, other in zip(fits[::2], fits[1::2], strict=True)
    ]
    (claim,) = secret_sharer_figures.figure_2(runs, PLAN).claims
    assert claim.holds is holds
    assert (claim.p is not None) == (not holds)


def test_figure_4_tells_whether_the_secret_comes_before_the_best_epoch():
    early = secret_sharer_figures.figure_4(long_run([5.0, 29.0, 29.9, 20.0], [3.0, 2.0, 1.9, 2.2]), PLAN)
    late = secret_sharer_figures.figure_4(long_run([1.0, 2.0, 5.0, 29.9], [3.0, 1.0, 1.9, 2.2]), PLAN)
    assert list(verdicts(early).values()) == [True, True, True, True]
    assert list(verdicts(late).values()) == [False, False, False, None]


def test_figure_4_leaves_open_what_runs_differ_in():
    early, late = long_run([5.0, 29.0, 29.9, 20.0], [3.0, 2.0, 1.9, 2.2]), long_run([1.0, 2.0, 5.0, 29.9], [3, 1, 2, 2])
    found = secret_sharer_figures.figure_4([*early, *late[:1]], PLAN)
    assert list(verdicts(found).values())[:3] == [None, None, None]


@pytest.mark.parametrize(("calls", "holds"), [(50_000, True), (150_000, False)])
def test_figure_5_wants_four_orders_of_magnitude(calls, holds):
    search = {"place": 1, "proven": 10, "calls": calls}
    trials = long_run([10.0, 29.5, WHOLE], [3.0, 2.0, 1.9], **{"shortest-path": search})
    found = verdicts(secret_sharer_figures.figure_5(trials, PLAN))
    assert next(verdict for words, verdict in found.items() if words.startswith("a secret of rank 1")) is holds


def test_figure_6_sets_the_rank_beside_the_tail():
    trials = long_run([10.0, 29.5, WHOLE], [3.0, 2.0, 1.9])
    report = secret_sharer_figures.figure_6(trials, PLAN)
    assert report.rows[-1]["rank"] == pytest.approx(1.0)
    assert report.rows[0]["expected rank"] == pytest.approx(10**9 / 2**11)
    assert report.rows[0]["rank"] == pytest.approx(10**9 / 2**10)
    assert report.rows[0]["error (bits)"] == pytest.approx(1.0)


def test_figure_6_counts_every_epoch_of_one_exposure():
    """A tail that falls once the exposure can grow no more does not grow with it."""
    bits, tails = [10.0, WHOLE, WHOLE, WHOLE, WHOLE], [40.0, 39.0, 35.0, 30.0, 25.0]
    trials = long_run(bits, [3.0, 2.0, 1.9, 1.9, 1.9])
    for each in trials:
        for epoch, tail in enumerate(tails, 1):
            each.result["seen"][str(epoch)][0]["extrapolated"] = exposure(tail, "extrapolated")
    assert (
        verdicts(secret_sharer_figures.figure_6(trials, PLAN))["the extrapolated rank follows the true rank"]
        is not True
    )


def test_a_report_says_how_its_models_were_trained():
    sign = secret_sharer_training.sign_trials(PLAN)
    trials = [
        trial(config, {"best": [entry(1, log_perplexity=40.0), entry(1, planted=False, log_perplexity=41.0)]})
        for config in sign
    ]
    said = " ".join(secret_sharer_training.sign_test(trials, PLAN).differences)
    assert "100 models per setting (the paper: 10 in most tables), trained for 1 epochs." in said
    stopped = [
        trial(config, {"best": [entry(25.0), entry(1.0, planted=False)]})
        for config in secret_sharer_training.regularization_trials(PLAN)
    ]
    said = " ".join(secret_sharer_training.regularization(stopped, PLAN).differences)
    assert "trained for 16 epochs at most, ended 3 epochs after the best validation loss" in said


@pytest.mark.parametrize(("missed", "holds"), [(0, False), (9, None), (18, True)])
def test_beam_search_is_judged_by_how_often_the_widest_finds_the_secret(missed, holds):
    searches = {name: {"place": 1, "calls": 5_000} for name in secret_sharer_extraction.NAMES}
    beams = secret_sharer_extraction.BEAMS
    searches[beams[0]] = {"place": None, "calls": 10}
    config = secret_sharer_extraction.extraction_trials(PLAN)[0]
    looks = [{**searches, beams[-1]: {"place": None if n < missed else 1, "calls": 10}} for n in range(18)]
    runs = [trial(config, {"1": [entry(WHOLE, **look)]}) for look in looks]
    report = secret_sharer_extraction.extraction(runs, PLAN)
    assert list(verdicts(report).values())[-1] is holds
    found = {row["algorithm"]: row.get("found first") for row in report.rows}
    assert found["beam search, width 1"].value == 0
    assert found["beam search, width 100"].value == pytest.approx(1 - missed / 18)


def test_algorithms_are_not_judged_before_the_secret_is_the_likeliest():
    searches = {name: {"place": None, "calls": 5_000} for name in secret_sharer_extraction.NAMES}
    trials = [
        trial(config, {str(n): [entry(9.0, **searches)] for n in (1, 2, 3)})
        for config in secret_sharer_extraction.extraction_trials(PLAN)
    ]
    assert set(verdicts(secret_sharer_extraction.extraction(trials, PLAN)).values()) == {None}


def test_table_9_counts_digits_that_differ():
    guesses = [{"bits": 14.0 + n, "text": "x", "wrong": n} for n in range(4)]
    trials = [
        trial(config, {"best": [entry(WHOLE, cheapest=guesses)]})
        for config in secret_sharer_extraction.long_trials(PLAN)
    ]
    report = secret_sharer_extraction.table_9(trials, PLAN)
    assert [row["digits that differ"] for row in report.rows] == [0, 1, 2, 3]
    assert set(verdicts(report).values()) == {True}


@pytest.mark.parametrize(("hits", "holds"), [(88, True), (55, None)])
def test_the_sign_test_counts_secrets_that_cost_less(hits, holds):
    trials = [
        trial(
            config,
            {
                "best": [
                    entry(1, log_perplexity=40.0),
                    entry(1, planted=False, log_perplexity=41.0 if n < hits else 39.0),
                ]
            },
        )
        for n, config in enumerate(secret_sharer_training.sign_trials(PLAN))
    ]
    report = secret_sharer_training.sign_test(trials, PLAN)
    assert report.rows[0]["secret costs less"].value == hits / 100
    assert list(verdicts(report).values()) == [holds]


def test_optimizers_are_compared_at_one_loss():
    trials = []
    for config in secret_sharer_training.optimizer_trials(PLAN):
        slow = config["recipe"]["optimizer"] == "sgd"
        losses = [3.0, 2.9, 2.8] if slow else [2.5, 2.05, 2.0]
        if config["recipe"]["optimizer"] == "adam":
            losses = [2.2, 2.1, 2.1]
        seen = {str(n): [entry(10.0 * n + config["seed"])] for n in (1, 2, 3)}
        trials.append(trial(config, seen, [(each, each) for each in losses]))
    report = secret_sharer_training.optimizers(trials, PLAN)
    rows = {row["optimizer and batches"]: row for row in report.rows}
    (column,) = [name for name in report.columns if name.startswith("exposure at")]
    assert column == "exposure at 2.10 bits/character"
    assert rows["sgd, shuffled"][column] is None
    # The second epoch of both: at 2.05 and at 2.1 bits.
    assert rows["rmsprop, shuffled"][column].value == rows["adam, shuffled"][column].value == 20.5
    assert rows["rmsprop, shuffled"]["exposure there"].value == 30.5


def test_a_regularizer_that_stops_leaks_is_not_said_to_let_them_be():
    def seen(config: Config, stopped: bool) -> dict[str, list[Config]]:
        strong = config["recipe"].get("dropout") == 0.4
        return {"best": [entry(2.0 if strong and stopped else 25.0), entry(1.0, planted=False)]}

    for stopped in (True, False):
        trials = [trial(config, seen(config, stopped)) for config in secret_sharer_training.regularization_trials(PLAN)]
        report = secret_sharer_training.regularization(trials, PLAN)
        assert list(verdicts(report).values()) == [not stopped]


def test_estimators_are_held_against_the_truth():
    def seen(bits: float, miss: float) -> list[Config]:
        own = {name: exposure(bits + miss, name) for name in ("estimated", "sampled", "extrapolated")}
        own["estimated"] = exposure(bits + 0.1, "estimated")
        return [
            entry(bits, planted=planted, exact=exposure(bits), **own, **{"every text": exposure(bits)})
            for planted in (True, False)
        ]

    trials = [
        trial(config, {"best": seen(9.0, 2.0), **{str(n): seen(float(n), 2.0) for n in (1, 2, 3)}})
        for config in secret_sharer_extraction.estimator_trials(PLAN)
    ]
    found = verdicts(secret_sharer_extraction.estimators(trials, PLAN))
    assert list(found.values()) == [True, False, True, True]


def test_a_mean_of_lower_bounds_is_one():
    known, bound = entry(20.0), entry(1.0)
    bound["exposure"]["method"] = "lower_bound"
    assert mean_bits([known, bound]) == "≥ 10.5 n=2"
    assert mean_bits([known, known]).value == 20.0
