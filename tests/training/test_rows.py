"""What the trainers share: random state that is theirs while they train, and nobody else's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.architectures import build
from leakage_tasks.training.char_lstm import fresh_model
from leakage_tasks.training.rows import explain_out_of_memory, memory_of, seeded

CPU = torch.device("cpu")


def test_inside_it_is_the_seed_s_state_and_afterwards_the_old_one():
    before = torch.get_rng_state()
    with seeded(7, CPU):
        drawn = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7)))


@pytest.mark.parametrize(
    "make",
    [lambda tokenizer: build("gru-1x370", tokenizer, units=8), lambda tokenizer: fresh_model(tokenizer, 0, 8, 1)],
)
def test_what_is_made_on_the_cpu_seeds_no_gpu(monkeypatch, make):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    make(char_tokenizer("abc"))
    assert seeds == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_s_state_is_the_seed_s_inside_and_the_old_one_afterwards():
    before = torch.cuda.get_rng_state()
    drawn = []
    for place in (torch.device("cuda"), torch.device("cuda", torch.cuda.current_device())):
        with seeded(7, place):
            drawn.append(torch.rand(3, device=place))
    assert torch.equal(*drawn)
    assert torch.equal(torch.cuda.get_rng_state(), before)


MEMORY = Path("/proc/meminfo")


@pytest.mark.skipif(not MEMORY.is_file(), reason="Linux tells it there")
def test_a_cpu_has_the_machine_s_memory():
    kilobytes = int(re.search(r"MemTotal: *(\d+) kB", MEMORY.read_text())[1])
    assert memory_of(CPU) == pytest.approx(kilobytes * 1024, rel=0.01)


def test_where_the_system_does_not_tell_there_is_no_end_of_it(monkeypatch):
    monkeypatch.delattr("os.sysconf_names")
    assert memory_of(CPU) == float("inf")


def test_a_gpu_has_what_is_free_and_what_torch_holds_unused(monkeypatch):
    for name, told in (("mem_get_info", (500, 1000)), ("memory_reserved", 300), ("memory_allocated", 200)):
        monkeypatch.setattr(torch.cuda, name, lambda _, told=told: told)
    assert memory_of(torch.device("cuda")) == 600


@pytest.mark.parametrize("sizes", [(10**14,), (1000, 10**18)], ids=["too much", "beyond all numbers"])
def test_what_torch_cannot_allocate_is_one_line(sizes):
    with (
        pytest.raises(LeakageError, match=r"^out of memory \(.+\): ask for less$"),
        explain_out_of_memory("ask for less"),
    ):
        torch.empty(sizes)


def test_a_gpu_without_memory_is_one_line():
    with pytest.raises(LeakageError, match=r"^out of memory \(no room\): less$"), explain_out_of_memory("less"):
        raise torch.OutOfMemoryError("no room\nmore of it")


def test_other_failures_are_left_as_they_are():
    with pytest.raises(RuntimeError, match="another") as caught, explain_out_of_memory("less"):
        raise RuntimeError("another")
    assert type(caught.value) is RuntimeError
