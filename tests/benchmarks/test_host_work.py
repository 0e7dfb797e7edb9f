"""The processor time of a run outside the model, and the rows of its passes."""

import argparse

import pytest

from benchmarks import host_work
from benchmarks.operations import canaries_of
from benchmarks.small_models import harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.harness.target import as_target


@pytest.mark.parametrize("learned", [0.0, 0.5])
def test_a_run_has_time_within_and_outside_the_model(learned):
    spent = host_work.run_timed("canary_extraction", 2, learned, argparse.Namespace(rows=64, budget=60))
    assert 0 < spent.model < spent.run
    assert spent.passes < spent.rows
    assert spent.host_microseconds == pytest.approx((spent.run - spent.model) * 1e6 / spent.rows)


def test_passes_and_rows_equal_those_of_the_meter():
    lm = harness_model("llama", 64, "cpu")
    with host_work.timed(lm.model) as spent, metered([lm.model]) as seen:
        run_attack("beam", as_target(lm), canaries_of(2, source=False), goal="extraction", budget=30)
    assert (spent.passes, spent.rows) == (seen.passes, seen.rows)


@pytest.mark.slow
def test_findings_of_a_hundred_canaries_are_complete_one_after_another():
    """A third are complete at half of the rows; if attacks are joined until requests fill two passes, 26 % are. Then a
    pass has as many rows: 1,127."""
    lm, full = harness_model("llama", 2048, "cpu"), 2048
    target, read, ended_at = as_target(lm), [0], []
    target.pass_rows.tuned.rows, target.pass_rows.tuned.note = full, lambda rows, seconds: None

    def on_rows(_, rows):
        read[0] += rows

    def done(_, finding):
        ended_at.append(read[0])

    canaries = canaries_of(100, source=False)
    with host_work.timed(lm.model) as spent:
        run_attack("exposure", target, canaries, budget=3000, on_rows=on_rows, done=done)
    assert sum(rows <= read[0] / 2 for rows in ended_at) >= len(canaries) / 3
    assert spent.rows / spent.passes >= 0.95 * 1127


def test_learned_secrets_have_a_low_rank():
    lm = harness_model("llama", 64, "cpu")
    host_work.sharpen(lm)
    target, canaries = as_target(lm), canaries_of(2, source=False)
    (known, unknown) = [*host_work.with_likely_secrets(target, canaries[:1]), canaries[1]]
    found = run_attack("exposure", target, [known, unknown], budget=600)
    assert (found[0].method, found[0].rank) == ("exact", 1)
    assert found[1].rank > 1e6


def test_the_table_has_a_row_for_each_run(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["host_work", "--canaries", "1", "2", "--learned", "0", "--budget", "30"])
    host_work.main()
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [[f" {task} ", f" {n} "] for task in host_work.ATTACKS for n in (1, 2)]
