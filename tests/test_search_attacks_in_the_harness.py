"""The searches of canary_extraction, chosen by --metadata inside the real harness."""

from __future__ import annotations

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from tests.oracles import brute_rank, letters, tiny_gpt2

TASK = "canary_extraction"


@pytest.fixture(scope="module")
def lm():
    return HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)


@pytest.fixture(scope="module")
def canaries():
    return make_canaries("pin {unique} is {digits:2}", 2, controls=1)


@pytest.fixture(scope="module")
def manifest(canaries, tmp_path_factory):
    path = tmp_path_factory.mktemp("manifest") / "canaries.jsonl"
    write_manifest(canaries, path)
    return path


def evaluate(lm, manifest, **metadata):
    metadata = {"canaries": str(manifest), "rows": "all", **metadata}
    results = evaluate_tasks(lm, [TASK], metadata)
    found = [finding_from_json(sample["resps"][0][0]) for sample in results["samples"][TASK]]
    return results["results"][TASK], {each.canary: each for each in found}


@pytest.fixture(scope="module")
def ranks(canaries):
    return {one.id: brute_rank(tiny_gpt2(letters()), letters(), one)[0] for one in canaries}


@pytest.mark.parametrize(
    "asked",
    [
        {"attack": "beam", "width": 100},
        {"attack": "shortest-path", "stopping": "paper", "batch": 1000},
        {"attack": "sample-tokens", "draws": 20_000},
    ],
    ids=lambda asked: asked["attack"],
)
def test_each_search_finds_the_cheapest_and_says_what_it_took(lm, manifest, ranks, asked):
    row, found = evaluate(lm, manifest, **asked)
    assert {each.attack for each in found.values()} == {asked["attack"]}
    for name, rank in ranks.items():
        assert found[name].place == (rank if rank <= 10 else None)
    planted = [each for each in found.values() if each.planted]
    assert row["nodes,none"] == sum(each.extra["nodes"] for each in planted) / len(planted)
    assert row["model_calls,none"] == sum(each.model_calls for each in planted) / len(planted)


def test_the_width_reaches_the_search(lm, manifest):
    """Two digits: the root, and one node below it."""
    _, found = evaluate(lm, manifest, attack="beam", width=1)
    assert {each.extra["nodes"] for each in found.values()} == {2}


def test_a_setting_of_another_attack_is_refused(lm, manifest):
    with pytest.raises(OptionError, match="attack=beam has no option 'draws': it has width"):
        evaluate(lm, manifest, attack="beam", canary_extraction={"draws": 5})
