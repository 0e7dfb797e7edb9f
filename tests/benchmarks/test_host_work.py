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
