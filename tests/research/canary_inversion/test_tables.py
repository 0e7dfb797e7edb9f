"""The NLU studies: what their tables and claims make of trials, checked on trials made up here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.canaries.presets import nlu_canaries
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.canary_inversion import beyond as nlu_beyond
from leakage_tasks.research.canary_inversion import defences as nlu_defences
from leakage_tasks.research.canary_inversion import figures as nlu_figures
from leakage_tasks.research.canary_inversion import tables as nlu
from leakage_tasks.research.canary_inversion.counts import (
    EVERY,
    alike,
    at_chance,
    below_chance,
    chance,
    closer,
    hdt,
    lower,
    near_chance,
    pooled,
    rises,
)
from leakage_tasks.research.canary_inversion.experiment import (
    ATIS,
    GENERATED,
    SNIPS,
    TaggerExperiment,
    alike_vectors,
    fingerprint,
    ground_at,
    utterances,
    vectors_of,
)
from leakage_tasks.research.canary_inversion.trials import PATTERNS, split, victims
from leakage_tasks.research.framework.jobs import run_trials
from leakage_tasks.research.framework.registry import STUDIES, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured
from leakage_tasks.research.framework.trials import TrialStore
from tests.research.stored import verdicts

SMALL = StudyPlan("small", 0, 10)


def entry(wrong: int, of: int = 4, finished: int | None = None, **attacks: int) -> dict[str, Any]:
    """What a trial found of one pattern: so many wrong slots, and after the finish, and by other attacks."""

    def masks(relaxed: int, after: int) -> dict[str, list[bool]]:
        return {"relaxed": [i < relaxed for i in range(of)], "finished": [i < after for i in range(of)]}

    found = {"published": masks(wrong, wrong if finished is None else finished), "one start": masks(wrong, wrong)}
    return {
        "exposure": 3.0,
        "method": "exact",
        "attacks": found | {name: masks(number, number) for name, number in attacks.items()},
    }


def made(configs: Sequence[Any], wrong: Any, **more: float) -> list[StudyTrial]:
    """Trials of these configs; ``wrong(config, pattern)`` gives an entry."""
    scores = {"intent_accuracy": 0.9, "slot_f1": 0.8, "epoch": 7, "epochs": 10, **more}
    return [
        StudyTrial(config, {"found": {p: wrong(config, p) for p in config["unknown"]}, **scores}, 1.0)
        for config in configs
    ]


def test_the_distance_is_the_mean_share_of_wrong_slots_with_students_interval() -> None:
    found = hdt([entry(n) for n in (0, 1, 1, 2, 4)])
    shares = [0, 0.25, 0.25, 0.5, 1]
    reach = stats.t.interval(0.95, 4, fmean(shares), stdev(shares) / math.sqrt(5))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((0.4, max(reach[0], 0), reach[1]))


def test_where_every_slot_is_right_the_interval_ends_at_the_share_of_canaries_that_are_not_whole() -> None:
    found = hdt([entry(0)] * 10)
    assert found is not None
    assert (found.value, found.high) == (0.0, pytest.approx(1 - 0.05 ** (1 / 10)))


def test_chance_is_that_of_a_random_filling() -> None:
    drawn = np.random.default_rng(0).integers(12, size=(2, 20_000))
    assert chance("color") == pytest.approx(float((drawn[0] != drawn[1]).mean()), abs=0.01)


def test_an_interval_below_chance_is_below_and_one_that_holds_it_is_at_chance() -> None:
    below, around, wide = Measured(0.3, 0.1, 0.5, 9), Measured(0.88, 0.8, 0.96, 9), Measured(0.8, 0.5, 1.0, 9)
    assert [below_chance("w", {"pin": each}).holds for each in (below, around, wide)] == [True, False, None]
    assert [at_chance("w", {"pin": each}).holds for each in (below, around, wide)] == [False, True, None]
    assert below_chance("w", {"pin": below, "call": around}).holds is False


def test_near_chance_is_told_from_below_it_where_an_interval_shows_a_small_advantage() -> None:
    below, little, wide = Measured(0.6, 0.5, 0.7, 9), Measured(0.82, 0.78, 0.86, 9), Measured(0.75, 0.6, 0.95, 9)
    assert [near_chance("w", {"pin": each}).holds for each in (below, little, wide)] == [False, True, None]
    assert at_chance("w", {"pin": little}).holds is False


def test_chance_of_all_patterns_is_the_mean_of_theirs() -> None:
    assert chance(EVERY) == pytest.approx((11 / 12 + 9 / 10 + 9 / 10) / 3)


@pytest.mark.parametrize("found", [Measured(0.3, None, None, 1), Measured(0.3, 0.2, 0.4, 3)])
def test_few_trials_tell_neither(found: Measured) -> None:
    assert below_chance("w", {"pin": found}).holds is None
    assert at_chance("w", {"pin": found}).holds is None


def test_lower_is_told_from_higher_and_from_what_cannot_be_told() -> None:
    assert lower("w", [0.1, 0.2, 0.1, 0.2, 0.1], [0.8, 0.9, 0.8, 0.9, 0.8]).holds is True
    assert lower("w", [0.8, 0.9, 0.8, 0.9, 0.8], [0.1, 0.2, 0.1, 0.2, 0.1]).holds is False
    assert lower("w", [0.5, 0.6], [0.5, 0.6]).holds is None


def test_seeds_count_once_over_several_repetitions() -> None:
    found = pooled([[0.0, 0.5, 1.0], [0.5, 0.5, 0.0]])
    assert found is not None
    assert (found.value, found.count) == (pytest.approx(5 / 12), 3)


def test_answers_to_the_same_canaries_are_compared_in_pairs() -> None:
    worse = [0.25, 0.5, 0.5, 0.75, 0.75, 1.0, 0.25, 0.5]
    assert closer("w", [value - 0.25 for value in worse], worse).holds is True
    assert closer("w", worse, [value - 0.25 for value in worse]).holds is False
    assert closer("w", worse, worse).holds is None


def test_what_is_closer_in_most_pairs_is_closer_whatever_the_means_say() -> None:
    worse = [0.5] * 23
    better = [0.45 - 0.001 * place for place in range(20)] + [1.0, 0.9, 0.8]
    assert fmean(better) > fmean(worse)
    assert closer("w", better, worse).holds is True


def test_alike_is_what_an_interval_of_the_difference_shows() -> None:
    one = [0.5, 0.55, 0.6, 0.45, 0.5, 0.55]
    assert alike("w", one, [value + 0.02 for value in one]).holds is True
    assert alike("w", one, [value + 0.4 for value in one]).holds is False
    assert alike("w", [0, 0, 0.25, 0.25, 0.5], [0.25, 0.25, 0.5, 0.5, 0.75]).holds is None
    assert alike("w", one[:3], one[3:]).holds is None


def test_a_trend_is_told_in_rows_of_the_same_seed() -> None:
    rows = [[0.1 * seed, 0.2 + 0.1 * seed, 0.5 + 0.1 * seed] for seed in range(5)]
    assert rises("w", rows).holds is True
    assert rises("w", [row[::-1] for row in rows]).holds is False
    assert rises("w", [[0.1, 0.2, 0.1]] * 5).holds is None
    assert rises("w", [[0.1, 0.2]] * 5).holds is None


def test_figure_3_shows_the_repetitions_of_lowest_distance_and_each_sets_own_set_up() -> None:
    configs = nlu_figures.figure_3_trials(SMALL)
    trials = made(configs, lambda config, p: entry(config["published_copies"] == 10, config["unknown"][p]))
    report = nlu_figures.figure_3(trials, SMALL)
    assert [(row["set"], row["R"]) for row in report.rows] == [("Snips", 100), ("ATIS", 100), ("generated", 100)]
    assert any("2,000 utterances of ATIS" in note and "2.2 of" in note for note in report.differences)


@pytest.mark.parametrize("name", [ATIS, GENERATED])
def test_more_repetitions_are_told_to_leak_more(name: str) -> None:
    trials = made(
        nlu_figures.by_set_trials(SMALL, name), lambda config, p: entry(2 * (config["published_copies"] == 10))
    )
    assert [claim.holds for claim in nlu_figures.by_set(trials, SMALL, name).claims] == [True, True]


def test_usefulness_is_told_by_an_interval() -> None:
    def of_accuracy(fall: float) -> list[StudyTrial]:
        trials = made(nlu_defences.table_3_trials(SMALL), lambda config, p: entry(1, adaptive=1))
        found = []
        for trial in trials:
            right = 0.9 + trial.config["seed"] / 1000 - fall * trial.config["defence"]["characters"]
            found.append(StudyTrial(trial.config, trial.result | {"intent_accuracy": right}, 1.0))
        return found

    claims = [nlu_defences.table_3(of_accuracy(fall), SMALL).claims[-1] for fall in (0.0, 0.1)]
    assert [claim.holds for claim in claims] == [True, False]


def test_table_2_shows_the_repetitions_of_lowest_distance() -> None:
    trials = made(
        nlu.table_2_trials(SMALL), lambda config, pattern: entry(1 if config["published_copies"] == 500 else 2)
    )
    row = next(row for row in nlu.table_2(trials, SMALL).rows if (row["canary"], row["n"]) == ("pin", 4))
    assert (row["R"], row["HDT"].value) == (500, 0.25)


def test_table_2_says_that_distance_rises_with_length_only_where_it_does() -> None:
    configs = nlu.table_2_trials(SMALL)
    rising = made(configs, lambda config, p: entry(config["unknown"][p] // 2 - 1, config["unknown"][p]))
    flat = made(configs, lambda config, p: entry(config["unknown"][p] // 2, config["unknown"][p]))
    assert [nlu.table_2(trials, SMALL).claims[1].holds for trials in (rising, flat)] == [True, None]


def test_table_2_sees_an_embedding_attack_that_is_better_than_chance() -> None:
    configs = nlu.table_2_trials(SMALL)

    def found(wrong: int) -> list[StudyTrial]:
        return made(configs, lambda config, p: entry(1, config["unknown"][p], embedding=wrong + config["seed"] % 2))

    assert [nlu.table_2(found(wrong), SMALL).claims[2].holds for wrong in (3, 0)] == [True, False]


def _table_3(defended: Any) -> Any:
    def found(config: Any, pattern: str) -> Any:
        if sum(map(bool, config["defence"].values())) < 3:
            return entry(1, adaptive=1)
        return entry(defended(config, pattern), adaptive=1)

    return nlu_defences.table_3(made(nlu_defences.table_3_trials(SMALL), found), SMALL)


def test_table_3_compares_the_defences_with_none() -> None:
    told = verdicts(_table_3(lambda config, _: 3 + config["seed"] % 2))
    for setting in ("R = 500, learnt", "R = 500, fixed", "R = 10, learnt", "R = 10, fixed"):
        words = f"{setting} embeddings: "
        assert told[nlu_defences.WEAKEN.test(f"{words}D + ES + CE")] is True
        assert told[f"{words}all three bring it to chance"] is True
        assert told[f"{words}also the best of five starts by an attacker who knows them, with the finish"] is False
    assert told[nlu_defences.WEAKEN.test("R = 500, learnt embeddings: Dropout (D)")] is None


def test_table_3_tells_near_chance_from_chance() -> None:
    report = _table_3(lambda config, pattern: 3 + (pattern == "color"))
    told = {claim.words.rpartition(": ")[2]: claim.holds for claim in report.claims}
    assert (told["within 0.15 of chance"], told["all three bring it to chance"]) == (True, False)


def test_at_the_papers_scale_no_embeddings_are_learnt() -> None:
    paper = StudyPlan("paper", trials=4)
    configs = nlu_defences.table_3_trials(paper)
    report = nlu_defences.table_3(made(configs, lambda config, p: entry(2 + config["seed"] % 2)), paper)
    assert {row["embeddings"] for row in report.rows} == {"fixed"}
    assert not [words for words in verdicts(report) if "learnt" in words]


def test_table_3_takes_the_patterns_of_a_victim_together() -> None:
    report = _table_3(lambda config, _: 3)
    rows = [row for row in report.rows if (row["R"], row["embeddings"], row["defence"]) == (10, "fixed", "D + ES + CE")]
    assert [row["canary"] for row in rows] == [*PATTERNS, "all three"]
    assert [(row["one start"].value, row["finished"].value) for row in rows] == [(0.75, 0.25)] * 4
    assert [(row["one start"].count, row["published"].value) for row in rows[2:]] == [(10, 0.90), (10, 0.90)]
    assert rows[-1]["epoch"].value == 7


def test_dp_sgd_is_told_from_the_papers_defences() -> None:
    def wrong(config: Any, pattern: str) -> Any:
        rest = 3 + config["seed"] % 2
        return entry(rest, adaptive=rest) if "epsilon" in config["defence"] else entry(1, adaptive=1)

    report = nlu_beyond.private(made(nlu_beyond.private_trials(SMALL), wrong), SMALL)
    told = verdicts(report)
    knowing = "the best of five starts by an attacker who knows it, with the finish, is at chance"
    assert told[f"with D + ES + CE {knowing}"] is False
    assert told[f"with DP-SGD (ε = 8) {knowing}"] is True
    assert told["DP-SGD (ε = 8) makes the attack from one start worse"] is True
    assert [row["published"].value for row in report.rows[:4]] == [0.30, 0.33, 0.40, 0.343]
    assert {row["published"].value for row in report.rows[8:]} == {None}


PRINTED = """
0.30 0.33 0.40 0.85 0.80 0.76 0.80 0.93 0.95 0.65 0.75 0.90 0.98 0.90 0.95 0.90 0.83 0.90 0.90 0.90 0.90
0.39 0.27 0.38 0.65 0.54 0.83 0.85 1.00 0.75 0.58 0.93 0.68 0.85 0.93 0.98 0.93 0.98 0.78 0.95 0.88 1.00
0.35 0.18 0.48 0.35 0.78 0.58 0.90 0.83 0.85 0.70 0.68 0.78 0.88 0.98 0.90 0.88 1.00 0.95 0.95 0.93 0.95
"""
"""Table 3, row after row, R = 10, 500 and 1000."""


def test_table_3_has_the_papers_figures_of_every_defence() -> None:
    found = [value for rows in nlu_defences.TABLE_3.values() for row in rows.values() for value in row]
    assert found == [float(number) for number in PRINTED.split()]


def test_table_4_has_the_call_with_a_known_area_code() -> None:
    configs = nlu.table_4_trials(SMALL)
    report = nlu.table_4(made(configs, lambda config, p: entry(1, config["unknown"][p])), SMALL)
    assert [row["n"] for row in report.rows] == [4, 4, 4, 10, 7]
    assert [config["area_code"] for config in configs if config["unknown"] == {"call": 7}] == [True] * 10


def test_tables_2_and_5_and_figure_2_share_their_trials() -> None:
    five = nlu.table_5_trials(SMALL)
    assert all(config in five for config in [*nlu.table_2_trials(SMALL), *nlu_figures.figure_2_trials(SMALL)])


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    study, plan, found = STUDIES["nlu/table-2"], StudyPlan("smoke", trials=2), []
    for jobs in (1, 2):
        store = TrialStore(tmp_path / str(jobs))
        trials = run_trials(store, study, study.trials(plan)[:2], jobs)  # type: ignore[index]
        found.append({json.dumps(trial.config): trial.result for trial in trials})
    assert found[0] == found[1]


def test_copies_are_as_large_a_share_as_the_papers() -> None:
    ground = TaggerExperiment(data=SNIPS, training=2_000)
    assert [ground.copies(n) for n in (1, 10, 100, 1000)] == [1, 2, 15, 153]
    assert TaggerExperiment(data=SNIPS, training=0).copies(500) == 500


def test_copies_are_split_nine_to_one() -> None:
    training, validation = split(nlu_canaries("pin", 1, repetitions=(57,)))
    assert (len(training), len(validation)) == (52, 5)
    assert training[0].words[:4] == ("my", "pin", "code", "is")


def test_values_of_a_slot_are_alike_and_other_words_are_not() -> None:
    words, digits = [f"w{n}" for n in range(40)] + list("0123456789"), tuple("0123456789")
    ground = TaggerExperiment(alike=0.8, spread=0.06, embedding_size=4_000)
    lines = [line.split() for line in alike_vectors(words, [digits], ground)]
    table = {word: np.array(list(map(float, numbers))) for word, *numbers in lines}

    def cosine(one: str, other: str) -> float:
        return float(table[one] @ table[other] / np.linalg.norm(table[one]) / np.linalg.norm(table[other]))

    assert cosine("1", "7") == pytest.approx(0.8, abs=0.05)
    assert cosine("1", "w3") == pytest.approx(0.0, abs=0.08)
    assert float(table["w3"].std()) == pytest.approx(0.06, rel=0.1)


def test_made_vectors_are_written_once(tmp_path: Path) -> None:
    ground = TaggerExperiment(alike=0.8, spread=0.06, embedding_size=5)
    first = Path(vectors_of(ground, ["a", "b"], [("1", "2")], tmp_path) or "")
    assert len(first.read_text().splitlines()) == 4
    first.write_text("as it was")
    assert vectors_of(ground, ["b", "a"], [("1", "2")], tmp_path) == str(first)
    assert first.read_text() == "as it was"
    assert vectors_of(ground, ["b", "c"], [("1", "2")], tmp_path) != str(first)


def test_published_vectors_that_are_not_there_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(LeakageError, match=r"x\.vec: no such file"):
        vectors_of(TaggerExperiment(vectors="x.vec"), [], [], tmp_path)


def test_data_that_are_not_there_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(LeakageError, match="set LEAKAGE_DATA"):
        utterances(ground_at("small"))


def test_a_trial_depends_on_what_its_data_are(data: Path) -> None:
    before = fingerprint(ground_at("small"))
    (data / SNIPS / "train" / "label").write_text("PlayMusic\nPlayMusic\n")
    assert fingerprint(ground_at("small")) != before


def test_the_parts_of_the_generated_set_share_no_utterance() -> None:
    parts = utterances(TaggerExperiment(data=GENERATED, training=200, validation=30, test=40))
    assert (len(parts.training), len(parts.validation), len(parts.test)) == (200, 30, 40)
    assert not {row.words for row in parts.training} & {row.words for row in parts.test}


def test_at_the_papers_scale_a_victim_holds_one_pattern() -> None:
    configs = victims(StudyPlan("paper", 0, 2), dict.fromkeys(PATTERNS, 4), 100)
    assert [config["unknown"] for config in configs] == [{p: 4} for p in PATTERNS for _ in range(2)]


def test_variants_are_compared_over_all_patterns() -> None:
    configs = nlu_beyond.variant_trials(SMALL)
    worse = {"gumbel": 3, "straight-through": 1, "embedding": 6, nlu_beyond.ONE: 6}
    trials = made(configs, lambda config, p: entry(2 + config["seed"] % 2, 6, finished=0, **worse))
    report = nlu_beyond.variants(trials, SMALL)
    assert [claim.holds for claim in report.claims] == [True, True, False, True, True]
    assert [report.rows[row]["relaxation"] for row in (0, 1)] == ["softmax, one start", "softmax"]
    assert report.rows[0]["Acc finished"] is None
    assert report.rows[1]["Acc finished"].value == 1.0


@pytest.mark.parametrize(("wrong", "holds"), [(1, True), (4, False)])
def test_table_3_says_of_dropout_and_of_characters_alone_whether_they_leave_an_attack(wrong: int, holds: bool) -> None:
    configs = nlu_defences.table_3_trials(SMALL)
    trials = made(configs, lambda config, p: entry(wrong - config["seed"] % 2, adaptive=1))
    told = verdicts(nlu_defences.table_3(trials, SMALL))
    for name in ("Dropout (D)", "Char. Emb. (CE)"):
        assert told[nlu_defences.NOT_ALONE.test(f"R = 500, learnt embeddings: {name}")] is holds
    assert nlu_defences.NOT_ALONE.test("R = 500, learnt embeddings: Early Stopping (ES)") not in told


def _most_leaked(plan: StudyPlan, wrong: Mapping[int, int]) -> list[Claim]:
    """The two claims on R where so many slots are wrong at each R, two at others."""
    configs = nlu.table_5_trials(plan)
    trials = made(configs, lambda config, p: entry(wrong.get(config["published_copies"], 2), config["unknown"][p]))
    return [claim for claim in nlu.table_5(trials, plan).claims if "1000" in claim.words]


def test_table_5_tells_whether_r_1000_leaks_most() -> None:
    paper = StudyPlan("paper", trials=4)
    for wrong, expected in (({1000: 1, 2000: 3}, [True, True]), ({1000: 3, 2000: 1}, [False, False])):
        assert [claim.holds for claim in _most_leaked(paper, wrong)] == expected


def test_what_no_run_at_a_scale_tells_says_what_it_takes() -> None:
    fewer, more = _most_leaked(SMALL, {1000: 1})
    assert (fewer.holds, fewer.takes) == (True, "")
    assert (more.holds, more.takes) == (None, "this scale has fewer copies: run it at `--scale paper`")
