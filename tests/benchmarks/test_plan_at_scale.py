"""The throughput model of runs on GPUs that are not at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.plan_at_scale import Machine, Shape, Work, pass_seconds, rows_that_fit, run_seconds


def test_a_pass_is_bound_by_arithmetic_or_by_memory() -> None:
    plain = Machine(flops_reached=1, bandwidth_reached=1, launch=0)
    shape = Shape(1e9, 10, 100)
    # 2·10^9 operations a row at 989·10^12 a second; 2 GB of weights at 3.35 TB a second.
    assert pass_seconds(plain, shape, 100_000, 0) == pytest.approx(2e14 / 989e12)
    assert pass_seconds(plain, shape, 1, 0) == pytest.approx(2e9 / 3.35e12)
    assert pass_seconds(Machine(), shape, 1, 0) > 2e9 / 3.35e12 + 150 * 8e-6


@pytest.mark.parametrize(("rows", "milliseconds"), [(512, 12.4), (2048, 17.6), (8192, 64.2)])
def test_plain_passes_of_a_llama_on_an_h100_as_measured(rows: int, milliseconds: float) -> None:
    llama = Shape(1.07e9, 16, 512)
    assert pass_seconds(Machine(), llama, rows, 32) == pytest.approx(milliseconds / 1000, rel=0.1)


def test_the_host_s_operations_count_where_they_take_longer_than_the_gpu() -> None:
    llama, machine = Shape(1.07e9, 16, 512), Machine()
    assert pass_seconds(machine, llama, 2048, 32, 44) == pytest.approx(44 * 16 * 57 * 13.7e-6)
    work = Work(1e6, 50, 64)
    times = [run_seconds(machine, llama, replace(work, times_plain=ratio)) for ratio in (20, 40)]
    assert times[1] == pytest.approx(2 * times[0])


def test_eight_gpus_take_an_eighth_of_a_large_run() -> None:
    shape, work = Shape(8e9, 32, 1024), Work(1e7, 50, 64)
    one, eight = (run_seconds(Machine(gpus), shape, work) for gpus in (1, 8))
    assert one is not None
    assert eight == pytest.approx(one / 8)


def test_a_model_that_does_not_fit_has_no_time() -> None:
    shape, work = Shape(70e9, 80, 1024), Work(1e6, 50, 64)
    assert rows_that_fit(Machine(), shape, work) == 0
    assert run_seconds(Machine(), shape, work) is None
