"""``leakage power``: what a wanted figure takes, what planned or finished audits can show, and bad input."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from scipy import optimize, stats

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.stats import power
from tests.conftest import Leakage, Ran, Refused
from tests.report.made import declaration, results, write


def test_what_is_wanted_in_canaries_controls_and_pairs(leakage: Leakage) -> None:
    code, out, _ = leakage("power", "--rate", "0.05", "--exposure", 3, "--epsilon", 1, "--repetitions", "4")
    alone, twins = power.canaries_for_exposure(3), power.balanced_canaries_for_exposure(3)
    assert code == 0
    assert out.splitlines() == [
        "to show with 80 % power, at 95 % confidence:",
        "  an extraction rate of 5 %: 32 canaries",
        f"  a mean exposure of 3 bits, against chance: {alone} canaries",
        f"  a mean exposure of 3 bits, by the AUC against controls: {twins} canaries and {twins} controls",
        "  an ε of 1, one canary swapped, if 95 % of the guesses are right: 16 pairs of a canary and a control",
        "  an ε of 1 for one row, of canaries planted 4 times (a swap is 8 rows): no number of pairs detects it",
    ]


def test_each_tier_of_copies_needs_its_own(leakage: Leakage) -> None:
    _, out, _ = leakage("power", "--rate", "0.05", "--repetitions", "1,4,16")
    assert "32 canaries in each tier (96 in 3 tiers of 1, 4 and 16 copies)" in out


def test_a_chance_of_being_guessed_takes_more_canaries(leakage: Leakage) -> None:
    _, out, _ = leakage("power", "--rate", "0.05", "--chance", "0.01")
    assert f"{power.trials_for_rate(0.05, 0.01)} canaries" in out


def test_what_so_many_can_show_tier_by_tier(ran: Ran) -> None:
    out, _ = ran("power", "--count", 21, "--controls", 100, "--repetitions", "1,4")
    first, *lines = out.splitlines()
    assert first == "this many canaries can show with 80 % power, at 95 % confidence:"
    assert lines == [
        "  11 planted once: an extraction rate of 13.6 % or more, a mean exposure of 3.00 bits or more",
        "  10 planted 4 times: an extraction rate of 14.9 % or more, a mean exposure of 3.11 bits or more",
        "  21 planted in all: an extraction rate of 7.4 % or more, a mean exposure of 2.45 bits or more",
        "  100 controls: a TPR at 1 % FPR; a fault that exposes them by 1.97 bits or more on average",
    ]


def test_a_manifest_and_a_run_say_how_many_they_have(tmp_path: Path, leakage: Leakage) -> None:
    manifest = tmp_path / "c.jsonl"
    write_manifest(make_canaries("{unique} {digits:4}", 3, supporting=0, repetitions=(1, 2), controls=2), manifest)
    tested = {"planted": 17, "controls": 0, "repetitions": {"1": 17}}
    declared = {"canary_extraction": declaration("canary_extraction", tested=tested)}
    file = write(tmp_path, results({"canary_extraction": {"extracted": 0.0}}, declared=declared))
    code, out, err = leakage("power", manifest, file)
    assert (code, err) == (0, "")
    assert f"{manifest} can show" in out
    assert "2 planted once" in out
    assert "1 planted 2 times" in out
    assert "17 planted once: an extraction rate of 9 % or more" in out
    assert "no controls: no AUC" in out


def test_the_exposures_of_small_spaces_are_those_of_their_ranks(tmp_path: Path, ran: Ran) -> None:
    tested = {"planted": 20, "controls": 5, "repetitions": {"1": 20}, "log2_size": [1.0, 1.0]}
    declared = {"canary_exposure": declaration("canary_exposure", tested=tested)}
    out, _ = ran("power", write(tmp_path, results({"canary_exposure": {"exposure": 0.0}}, declared=declared)))
    assert "a mean exposure of 0.800 bits or more" in out
    assert "  5 controls: no TPR at 1 % FPR (takes 100 controls); no fault\n" in out


def test_the_rates_of_small_spaces_are_above_those_of_random_guesses(tmp_path: Path, ran: Ran) -> None:
    manifest = tmp_path / "c.jsonl"
    alphabets = {"word": word_list("word", [f"w{number}" for number in range(32)])}
    write_manifest(make_canaries("{unique} {word}", 20, controls=0, alphabets=alphabets), manifest)
    tested = {"planted": 20, "controls": 0, "repetitions": {"1": 20}, "log2_size": [5.0, 5.0]}
    declared = {"canary_exposure": declaration("canary_exposure", tested=tested)}
    run = write(tmp_path, results({"canary_exposure": {"exposure": 0.0}}, declared=declared))
    out, _ = ran("power", manifest, run, "--count", 20, "--chance", 1 / 32)
    least = next(hits for hits in range(21) if stats.binom.sf(hits - 1, 20, 1 / 32) <= 0.05)
    rate = optimize.brentq(lambda share: stats.binom.sf(least - 1, 20, share) - 0.8, 0.01, 0.99)
    assert out.count(f"  20 planted once: an extraction rate of {100 * rate:.3g} % or more") == 3


@pytest.mark.parametrize(("count", "shown"), [(2, "an extraction rate of 55.3 % or more"), (0, "no extraction rate")])
def test_a_run_on_natural_secrets_shows_rates_of_those_with_a_result(
    tmp_path: Path, ran: Ran, count: int, shown: str
) -> None:
    tested = {"planted": 9, "controls": 9, "repetitions": {"1": 9}, "kinds": ["natural"]}
    declared = {"canary_extraction": declaration("canary_extraction", tested=tested)}
    values = {"success_at_10": 0.0, "n_success_at_10": count}
    out, _ = ran("power", write(tmp_path, results({"canary_extraction": values}, declared=declared)))
    assert "  9 natural secrets: a mean exposure of 3.24 bits or more\n" in out
    assert "planted once" not in out
    assert f"  {count} with a value of success_at_10: {shown}\n" in out


def test_natural_secrets_of_a_manifest_and_a_run_are_not_planted(tmp_path: Path, ran: Ran) -> None:
    manifest = tmp_path / "c.jsonl"
    made = make_canaries("{unique} {digits:4}", 5, supporting=0, controls=0)
    write_manifest([*made[:3], *(dataclasses.replace(each, kind="natural") for each in made[3:])], manifest)
    tested = {"planted": 5, "controls": 0, "repetitions": {"1": 3}, "kinds": ["natural", "random"]}
    declared = {"canary_exposure": declaration("canary_exposure", tested=tested)}
    out, _ = ran("power", manifest, write(tmp_path, results({"canary_exposure": {"exposure": 0.0}}, declared=declared)))
    assert out.count("  3 planted once: ") == out.count("  2 natural secrets: a mean exposure of ") == 2


def test_a_natural_secret_of_few_values_changes_no_rate_of_planted_canaries(tmp_path: Path, ran: Ran) -> None:
    made = make_canaries("{unique} {digits:9}", 32, supporting=0, controls=0)
    small = make_canaries("{unique} {digits:1}", 1, supporting=0, controls=0, id_prefix="n")
    natural = [dataclasses.replace(canary, kind="natural") for canary in small]
    lines = []
    for name, canaries in (("planted", made), ("both", [*made, *natural])):
        write_manifest(canaries, tmp_path / f"{name}.jsonl")
        out, _ = ran("power", tmp_path / f"{name}.jsonl")
        lines.append(next(line for line in out.splitlines() if "planted once: an extraction rate" in line))
    assert lines[0] == lines[1]


def test_a_run_shows_what_the_canaries_that_training_read_can_show(tmp_path: Path, ran: Ran) -> None:
    tested = {"planted": 30, "controls": 0, "repetitions": {"1": 20, "4": 10}}
    declared = {"canary_exposure": declaration("canary_exposure", tested=tested)}
    out, _ = ran("power", write(tmp_path, results({"canary_exposure": {"n_x1": 12}}, declared=declared)))
    assert "  12 planted once: " in out
    assert "planted 4 times" not in out


def test_a_run_whose_canaries_were_read_as_context_only_shows_nothing(tmp_path: Path, ran: Ran) -> None:
    tested = {"planted": 20, "controls": 0, "repetitions": {"1": 20}}
    declared = {"canary_exposure": declaration("canary_exposure", tested=tested)}
    out, _ = ran("power", write(tmp_path, results({"canary_exposure": {"n_context": 20}}, declared=declared)))
    assert "  training learnt from no planted canary: nothing can be shown\n" in out


@pytest.mark.parametrize("natural", [0, 5])
def test_a_run_whose_canaries_training_never_read_shows_nothing(tmp_path: Path, ran: Ran, natural: int) -> None:
    tested = {"planted": 20 + natural, "controls": 0, "repetitions": {"1": 20}, "learnt_from": {"1": [0, 20]}}
    declared = {"canary_exposure": declaration("canary_exposure", tested=tested)}
    out, _ = ran("power", write(tmp_path, results({"canary_exposure": {"exposure": 1.4}}, declared=declared)))
    assert "  training learnt from no planted canary: nothing can be shown\n" in out
    assert ("5 natural secrets: a mean exposure of" in out) == bool(natural)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "nothing to compute: give --rate, --exposure, --epsilon, --count, a manifest or results"),
        (["--rate", "0.05", "--chance", "0.05"], "even 1,000,000 canaries do not detect it against a chance of"),
        (["--rate", "0"], "--rate is 0: give a share above 0"),
        (["--exposure", "1.44"], "even 1,000,000 canaries do not detect it, as chance is 1.44 bits: give more"),
        (["--epsilon", "4"], "even 1,000,000 pairs do not detect it if 95 % of the guesses are right"),
        (["--epsilon", "0"], "--epsilon is 0: give a number above 0"),
        (["--epsilon", "nan"], "--epsilon is nan: give a number above 0"),
        (["--epsilon", "1", "--accuracy", "0.5"], "--accuracy is 0.5: give a share above 0.5"),
        (["--rate", "0.1", "--repetitions", "0"], "--repetitions has 0 copies"),
        (["--rate", "0.1", "--repetitions", "one"], "--repetitions is 'one': give whole numbers"),
        (["--count", "0"], "--count is 0"),
        (["--count", "1", "--controls", "-1"], "--controls is -1"),
        (["--rate", "0.1", "--chance", "1"], "--chance is 1"),
        (["--rate", "0.1", "--controls", "5"], "--controls goes with --count: leave it out"),
        (["--rate", "0.1", "--accuracy", "0.9"], "--accuracy goes with --epsilon: leave it out"),
        (["--exposure", "3", "--chance", "0.1"], "--chance goes with --rate or --count: leave it out"),
    ],
)
def test_what_cannot_be_is_one_line(refused: Refused, options: list[str], said: str) -> None:
    assert said in refused("power", *options)


def test_a_run_without_canaries_is_one_line(tmp_path: Path, refused: Refused) -> None:
    file = write(tmp_path, results({"arc_easy": {"acc": 0.5}}))
    assert "has no results of a canary task" in refused("power", file)
