"""Two real processes share the canaries and print the numbers of one."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from leakage_tasks.canaries import make_canaries, write_manifest
from tests.conftest import ROOT
from tests.launched import free_port
from tests.oracles import letters

SCRIPT = """
import json, sys
import lm_eval, torch.distributed as dist
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from tests.oracles import letters, tiny_gpt2

class Parallel(HFLM):
    rank = property(lambda self: dist.get_rank())
    world_size = property(lambda self: dist.get_world_size())
    def all_gather(self, tensor):
        import torch
        parts = [torch.zeros_like(tensor) for _ in range(self.world_size)]
        dist.all_gather(parts, tensor)
        return torch.stack(parts)
    def barrier(self):
        dist.barrier()

tasks, options, output = sys.argv[1:]
tasks, options = tasks.split(","), json.loads(options)
dist.init_process_group("gloo")
lm = Parallel(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=1 + dist.get_rank())
manager = TaskManager(include_path="task_configs", include_defaults=False, metadata=options)
results = lm_eval.simple_evaluate(lm, tasks=tasks, task_manager=manager)
if dist.get_rank() == 0:
    rows = {task: row for task, row in results["results"].items()}
    seen = [sample for sample in results["samples"][tasks[0]] if sample["filter"] == "none"]
    json.dump({"rows": rows, "ids": sorted(sample["doc_id"] for sample in seen)}, open(output, "w"))
dist.destroy_process_group()
"""


def run(tasks, options, output, processes):
    port, started = free_port(), []
    for rank in range(processes):
        places = {"RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        # LOCAL_RANK is left out: the harness prints results where it is 0, and would take it for tensor parallelism.
        command = [sys.executable, "-c", SCRIPT, ",".join(tasks), json.dumps(options), str(output)]
        environment = {**os.environ, **places, "PYTHONPATH": str(ROOT)}
        started.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate()[1] for process in started]
    assert all(process.returncode == 0 for process in started), errors
    return json.loads(output.read_text())


def compare(tasks, options, folder, count):
    one = run(tasks, options, folder / "one.json", 1)
    two = run(tasks, options, folder / "two.json", 2)
    assert one["ids"] == two["ids"] == list(range(count))
    for task, row in one["rows"].items():
        for name, value in row.items():
            expected = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
            assert two["rows"][task][name] == expected, (task, name)


@pytest.mark.slow
def test_two_processes_print_the_numbers_of_one(tmp_path):
    canaries = make_canaries("pin {unique} is {digits:3}", 3, repetitions=(1, 10), controls=2)
    write_manifest(canaries, tmp_path / "c.jsonl")
    options = {"canaries": str(tmp_path / "c.jsonl"), "budget": 60}
    compare(["canary_exposure", "canary_extraction"], options, tmp_path, len(canaries))


@pytest.mark.slow
def test_two_processes_draw_the_suffixes_of_one(tmp_path):
    rng = np.random.default_rng(0)
    for part, length in (("prefix", 9), ("suffix", 2)):
        np.save(tmp_path / f"train_{part}.npy", rng.integers(4, 40, (31, length)))
    options = {"data": str(tmp_path), "split": "all", "samples": 30, "temperature": 0.3}
    options |= {"guesses": str(tmp_path / "g.csv"), "prefix_lengths": [3], "validation": 0, "wrong": 4}
    options |= {"prefix": [3, 9], "suffix": 2}
    compare(["suffix_extraction", "memorization"], options, tmp_path, 31)
    assert len((tmp_path / "g.csv").read_text().splitlines()) == 32


@pytest.mark.slow
def test_two_processes_score_the_texts_of_one(tmp_path):
    for name, word in {"members": "pin", "nonmembers": "tin"}.items():
        rows = [json.dumps({"text": f"the {word} of my old house is {index * 37}"}) for index in range(13)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    options = {name: str(tmp_path / f"{name}.jsonl") for name in ("members", "nonmembers")}
    options |= {"tokens": 20, "shots": 1, "neighbours": "words", "neighbour_number": 2}
    compare(["membership"], options, tmp_path, 25)


@pytest.mark.slow
def test_two_processes_write_the_texts_of_one(tmp_path):
    letters().save_pretrained(tmp_path / "spoken")
    for name, text in {"seen": "the pin is 12 and the tin is 34", "unseen": "no cat sat on any mat here"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    options = {name: str(tmp_path / f"{name}.txt") for name in ("seen", "unseen")}
    options = {"data": options["seen"], "controls": options["unseen"], "tokenizer": str(tmp_path / "spoken")}
    options |= {"texts": 5, "length": 20, "run_length": 2, "corpus_prefix": 4, "repeats": 3, "prompt_words": 2}
    options |= {"kinds": "empty:short:divergence:prefix", "rows": "all"}
    compare(["untargeted_extraction"], options, tmp_path, 25)
