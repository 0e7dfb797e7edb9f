"""What tasks write about themselves into the results file, and reports made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks.access import NEXT_TOKEN
from leakage_tasks.attacks.registry import BUDGET
from leakage_tasks.canaries import Canary, make_canaries, manifest_hash, write_manifest
from leakage_tasks.pairs.source import Source, pairs_hash, read_pairs
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.report.load.results import Run, read_runs
from leakage_tasks.report.load.results_file import every_row
from leakage_tasks.tasks.base_task import DECLARED
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from tests.oracles import letters, merging, tiny_gpt2
from tests.targets.suffix_oracle import prefixes_of
from tests.tasks.suffix.test_task import evaluate as evaluate_pairs
from tests.tasks.test_canary_tasks import BOTH, evaluate


@pytest.fixture
def lm() -> HFLM:
    return HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)


@pytest.fixture
def canaries() -> list[Canary]:
    return make_canaries("pin {unique} is {digits:2}", 3, repetitions=(1, 10), controls=2)


def declared(results: dict[str, Any], task: str) -> dict[str, Any]:
    return json.loads(json.dumps(results["configs"][task][DECLARED], allow_nan=False))


def run_of(results: dict[str, Any], folder: Path) -> Run:
    kept = {name: results[name] for name in ("results", "configs", "higher_is_better", "n-samples", "config")}
    path = folder / "results_2026-01-02T03-04-05.000000.json"
    path.write_text(json.dumps(kept, default=str), encoding="utf-8")
    return read_runs([path])[0]


def test_canary_tasks_tell_what_was_planted_and_asked(lm: HFLM, canaries: list[Canary], tmp_path: Path):
    write_manifest(canaries, tmp_path / "c.jsonl")
    given = {"canaries": str(tmp_path / "c.jsonl"), "budget": 500, "seed": 3}
    found = declared(evaluate(lm, ["canary_exposure"], given), "canary_exposure")
    assert found["protocol"] == {"canaries": manifest_hash(canaries), "budget": 500}
    assert found["tested"] == {
        "planted": 3,
        "planting": "claimed",
        "controls": 2,
        "repetitions": {"1": 2, "10": 1},
        "kinds": ["random"],
        "log2_size": [6.64, 6.64],
        "sizes": [100, 100],
        "example": canaries[0].template,
    }
    assert found["attacks"] == [{"attack": "exposure", "access": NEXT_TOKEN}]


def test_only_small_sizes_are_exact(task: Callable[..., CanaryExposure], tmp_path: Path):
    one = task()
    assert describe_tested(one.tested()).split("; ")[-2] == "each secret is one of 100 possible values"
    many = make_canaries("pin {unique} is {digits:4}", 1, repetitions=(1,), controls=0, id_prefix="large-")
    write_manifest([*one.canaries, *many], tmp_path / "m.jsonl")
    found = CanaryExposure({"task": "canary_exposure", "metadata": {"canaries": str(tmp_path / "m.jsonl")}}).tested()
    assert (found["log2_size"], found["sizes"]) == ([6.64, 13.29], [100, None])
    words = "each secret is one of 100 to 2^13.3 (about 10,000) possible values"
    assert words in describe_tested(json.loads(json.dumps(found)))
    write_manifest(many, tmp_path / "n.jsonl")
    large = CanaryExposure({"task": "canary_exposure", "metadata": {"canaries": str(tmp_path / "n.jsonl")}})
    assert "sizes" not in large.tested()


def test_natural_canaries_give_no_example(lm: HFLM, tmp_path: Path):
    secret = Canary("n", "my pin is {digits:2}", ("4", "2"), repetitions=1, kind="natural")
    write_manifest([secret], tmp_path / "c.jsonl")
    results = evaluate(lm, BOTH, {"canaries": str(tmp_path / "c.jsonl")})
    assert "example" not in declared(results, "canary_exposure")["tested"]
    assert "my pin" not in json.dumps(results["configs"], default=str)


@pytest.fixture
def task(canaries: list[Canary], tmp_path: Path) -> Callable[..., CanaryExposure]:
    """The task on the canaries with further options, before a run."""
    write_manifest(canaries, tmp_path / "c.jsonl")

    def make(**more: Any) -> CanaryExposure:
        return CanaryExposure({"task": "canary_exposure", "metadata": {"canaries": str(tmp_path / "c.jsonl"), **more}})

    return make


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"attack": "rank-sample"}, {"attack": "rank-sample"}),
        # Models have budgets of their own.
        ({"budget": BUDGET}, {"budget": BUDGET}),
        ({"histogram": 20, "seed": 1, "reveal": True}, {}),
    ],
)
def test_what_was_asked_holds_the_options_that_change_a_figure(
    task: Callable[..., CanaryExposure], canaries: list[Canary], given: dict[str, Any], told: dict[str, Any]
):
    assert task(**given).protocol() == {"canaries": manifest_hash(canaries), **told}


def test_a_part_of_the_canaries_is_told_as_such(task: Callable[..., CanaryExposure]):
    parts = []
    for chosen, counts in (({"limit": 2}, (1, 1)), ({"samples": [0, 2]}, (2, 0))):
        one = task()
        one.build_all_requests(**chosen)
        told = one.dump_config()["leakage"]
        assert (told["tested"]["planted"], told["tested"]["controls"]) == counts
        parts.append(told["protocol"]["part"])
    assert parts[0] != parts[1]


def test_pairs_tell_their_hash_lengths_and_options(tmp_path: Path):
    rows = np.array(prefixes_of(30, 6), dtype=np.uint16)
    np.save(tmp_path / "train_prefix.npy", rows[:, :4])
    np.save(tmp_path / "train_suffix.npy", rows[:, 4:])
    model = HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=4)
    found = declared(evaluate_pairs(model, tmp_path, samples=3, wrong=2, seed=5), "suffix_extraction")
    assert found["tested"] == {"pairs": 30, "prefix_tokens": [4, 4], "suffix_tokens": [2, 2]}
    assert found["protocol"] == {
        "data": pairs_hash(read_pairs(Source(str(tmp_path), split="all"))),
        "samples": 3,
        "wrong": 2,
        "temperature": 0.3,
        "top_p": 0.95,
    }
    assert [each["access"] for each in found["attacks"]] == [NEXT_TOKEN]


def test_a_board_of_a_real_run_has_its_figures(lm: HFLM, canaries: list[Canary], tmp_path: Path):
    write_manifest(canaries, tmp_path / "c.jsonl")
    results = evaluate(lm, BOTH, {"canaries": str(tmp_path / "c.jsonl")})
    (entry,) = make_board([run_of(results, tmp_path)]).groups[0].entries
    found = entry.figures["canary_exposure/exposure"]
    rows = every_row(results, "canary_exposure")
    names = ("exposure", "exposure_ci_low", "exposure_ci_high", "control_exposure", "n_planted")
    assert (found.value, found.low, found.high, found.control, found.count) == tuple(rows[name] for name in names)
    assert entry.place == 1
