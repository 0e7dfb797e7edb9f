"""The counts of operations and of waits of the host, against operations that are written out by hand."""

import argparse

import pytest
import torch
from torch import nn

from benchmarks.dispatch_tally import Tally
from benchmarks.operations import canaries_of, plain_operations, run_counted
from benchmarks.small_models import harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.harness.target import as_target


class Summing(nn.Module):
    """A model of one operation."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return input_ids + 1


@pytest.fixture
def tally():
    return Tally(Summing(), on_cpu=True)


def test_operations_within_and_outside_the_model_passes_and_rows(tally):
    ids = torch.ones(3, 2)
    with tally.hooks():
        out = tally.model(input_ids=ids)
        tally.model(input_ids=out.clone())
    assert dict(tally.operations) == {"add": 2, "clone": 1}
    assert (tally.passes, tally.rows, tally.inside) == (2, 6, 2)


@pytest.mark.parametrize(
    ("waits", "times"),
    [
        (lambda ones: ones[0].item(), 1),
        (lambda ones: bool(ones[0]), 1),
        (lambda ones: ones[ones > 0], 1),
        (lambda ones: ones.nonzero(), 1),
        (lambda ones: ones.numpy(), 1),
        (lambda ones: ones.tolist(), 1),
        (lambda ones: ones[torch.tensor([0])] + 1, 0),
    ],
)
def test_waits_of_the_host(tally, waits, times):
    with tally.hooks():
        waits(torch.ones(3))
    assert tally.syncs == times


def test_nothing_is_counted_afterwards(tally):
    with tally.hooks():
        pass
    tally.model(input_ids=torch.ones(1))
    assert (tally.operations.total(), tally.passes) == (0, 0)


@pytest.mark.parametrize(("name", "layers"), [("llama", 4), ("t5", 4)])
def test_a_plain_pass_dispatches_more_than_ten_operations_a_layer(name, layers):
    model = harness_model(name, 8, "cpu").model
    assert 10 * layers < plain_operations(model, "cpu") < 100 * layers


@pytest.mark.parametrize("name", ["lstm", "t5"])
def test_passes_and_rows_of_a_run_equal_those_of_the_meter(name):
    lm = harness_model(name, 64, "cpu")
    target, tally = as_target(lm), Tally(lm.model, on_cpu=True)
    with tally.hooks(), metered([lm.model]) as seen:
        run_attack("auto", target, canaries_of(2, name == "t5"), goal="extraction", budget=30)
    assert (tally.passes, tally.rows) == (seen.passes, seen.rows)
    assert tally.passes < tally.rows
    assert tally.inside < tally.operations.total()


@pytest.mark.parametrize("task", ["canary_exposure", "canary_extraction"])
@pytest.mark.parametrize(
    ("name", "canaries"),
    [
        *[(name, 2) for name in ("llama", "mamba", "lstm", "t5")],
        ("llama", 40),
        *[pytest.param(name, 2, marks=pytest.mark.slow) for name in ("gemma3", "gpt2")],
        *[pytest.param(name, 100, marks=pytest.mark.slow) for name in ("gemma3", "gpt2", "mamba", "lstm", "t5")],
        pytest.param("llama", 1000, marks=pytest.mark.slow),
    ],
)
def test_a_pass_takes_few_operations_more_than_a_plain_one_however_many_canaries(name, canaries, task):
    options = argparse.Namespace(rows=1024, device="cpu", budget=60)
    tally, plain, _ = run_counted(name, task, canaries, options)
    assert tally.operations.total() <= 1.6 * plain * tally.passes
    assert tally.syncs <= 2 * tally.passes
    assert tally.rows > tally.passes
