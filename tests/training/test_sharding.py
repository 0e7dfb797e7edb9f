"""Weights that are sharded over processes: the callback leaves on all of them, preflight checks the data alone."""

from __future__ import annotations

import copy
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import TrainerControl, TrainerState

from leakage_tasks import ExposureCallback
from leakage_tasks.canaries import write_manifest
from leakage_tasks.core.errors import TargetError
from leakage_tasks.training.preflight import preflight
from leakage_tasks.training.preflight.probes import trained_share
from leakage_tasks.training.sharding import check_whole, sharding_of
from tests.conftest import ROOT
from tests.launched import free_port
from tests.oracles import letters, tiny_gpt2
from tests.training.preflight.trainers import canaries, model, sft, texts

SCRIPT = """
import sys
from types import SimpleNamespace
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from leakage_tasks import ExposureCallback
from leakage_tasks.core.errors import TargetError
from tests.training.preflight.trainers import model, tokenizer

distributed.init_process_group("gloo")
shared = model()
for layer in shared.model.layers:
    fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
fully_shard(shared, mesh=init_device_mesh("cpu", (2,)))
state = SimpleNamespace(is_world_process_zero=distributed.get_rank() == 0, global_step=0, log_history=[])
callback = ExposureCallback(sys.argv[1], share=None, budget=50)
try:
    callback.on_train_begin(SimpleNamespace(disable_tqdm=True), state, None, model=shared, processing_class=tokenizer())
    shared(torch.tensor([[1, 2, 3]]))  # The first step, which gathers the weights of all processes.
    print("trained")
except TargetError as error:
    print(error)
distributed.destroy_process_group()
"""


def partitioned() -> Any:
    """A model with the mark that DeepSpeed leaves on weights that it partitions."""
    marked = model()
    for parameter in marked.parameters():
        parameter.ds_id, parameter.ds_numel = 1, 10 * parameter.numel()
    return marked


def plugin(stage: int) -> SimpleNamespace:
    return SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=SimpleNamespace(zero_stage=stage)))


def wrapped() -> FullyShardedDataParallel:
    """A model in a wrapper that torch makes only on accelerators."""
    outer = FullyShardedDataParallel.__new__(FullyShardedDataParallel)
    torch.nn.Module.__init__(outer)
    outer._fsdp_wrapped_module = model()
    return outer


def test_methods_of_sharding_are_recognized() -> None:
    plain = tiny_gpt2(letters())
    assert sharding_of(plain) is None
    assert sharding_of(plain, plugin(2)) is None
    assert sharding_of(plain, SimpleNamespace(state=SimpleNamespace())) is None
    assert sharding_of(plain, plugin(3)) == "DeepSpeed ZeRO-3"
    assert sharding_of(partitioned()) == "DeepSpeed ZeRO-3"
    assert sharding_of(wrapped()) == "FSDP"
    with pytest.raises(TargetError, match=r"sharded over processes \(FSDP\).*audit them with 'leakage checkpoints"):
        check_whole(wrapped())


@pytest.mark.parametrize("first", [True, False])
def test_every_process_leaves_before_the_first_step(tmp_path: Path, first: bool) -> None:
    write_manifest(canaries(), tmp_path / "c.jsonl")
    callback = ExposureCallback(tmp_path / "c.jsonl")
    state = TrainerState(is_world_process_zero=first)
    with pytest.raises(TargetError, match="DeepSpeed ZeRO-3"):
        callback.on_train_begin(None, state, TrainerControl(), model=partitioned(), processing_class=letters())
    callback._trainer = SimpleNamespace(accelerator=plugin(3))
    with pytest.raises(TargetError, match="DeepSpeed ZeRO-3"):
        callback.on_train_begin(None, state, TrainerControl(), model=model(), processing_class=letters())


def test_preflight_of_sharded_weights_checks_the_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = canaries(2)
    rows = [{"text": text} for text in texts([each for each in made if each.planted])]
    usual = preflight(sft(tmp_path / "usual", rows), made)
    trainer = sft(tmp_path / "sharded", rows)
    trainer.model = partitioned()
    with caplog.at_level(logging.WARNING):
        found = preflight(trainer, made)
    assert (
        "preflight: the weights are sharded over processes (DeepSpeed ZeRO-3): only the data are checked" in caplog.text
    )
    for one, other in zip(found.canaries, usual.canaries, strict=True):
        assert (one.whole, one.in_loss, one.reached) == (other.whole, other.in_loss, None)
    assert any(each.reached for each in usual.canaries)


def test_the_share_of_trained_weights_counts_those_of_all_processes() -> None:
    marked = copy.deepcopy(partitioned())
    for name, parameter in marked.named_parameters():
        parameter.requires_grad = "lm_head" in name
        parameter.ds_numel = parameter.numel()
    expected = trained_share(marked)
    for parameter in marked.parameters():
        parameter.ds_numel, parameter.data = parameter.numel(), torch.zeros(0)
    assert 0 < expected < 1
    assert trained_share(marked) == expected


@pytest.mark.slow
def test_two_processes_of_sharded_weights_leave_together(tmp_path: Path) -> None:
    write_manifest(canaries(), tmp_path / "c.jsonl")
    port, started = free_port(), []
    for rank in range(2):
        places = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, **places, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "c.jsonl")]
        started.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=400)[0] for process in started]
    assert all(process.returncode == 0 for process in started)
    assert all("the weights are sharded over processes (FSDP2 or tensor parallelism)" in text for text in said), said
