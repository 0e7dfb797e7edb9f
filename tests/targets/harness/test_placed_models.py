"""Models whose layers `accelerate` places, on a CPU and on disk, keep the fast way and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import make_canaries
from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.harness.fingerprint import model_fingerprint
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.tasks.suffix.suffix_handler import suffix_target
from tests.oracles import letters, tiny_gpt2

ATTACKS = ("exposure", "shortest-path")
CANARIES = make_canaries("pin {unique} is {digits:3}", 2, controls=1)
PAIRS = [Pair(number, (5 + number, 6, 7, 8, 9, 10), (11, 12, 13)) for number in range(3)]
ON_CPU = ("transformer.wte", "transformer.wpe", "transformer.h.0", "transformer.ln_f", "lm_head")
PLACES: dict[str, dict[str, str]] = {
    "all on the CPU": {"": "cpu"},
    "a layer on disk": {**dict.fromkeys(ON_CPU, "cpu"), "transformer.h.1": "disk"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("gpt2")
    tiny_gpt2(letters()).save_pretrained(place)
    letters().save_pretrained(place)
    return place


@pytest.fixture(params=PLACES)
def placed(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> HFLM:
    given: dict[str, Any] = {"parallelize": True, "offload_folder": str(tmp_path), "device_map": PLACES[request.param]}
    return HFLM(pretrained=str(folder), device="cpu", batch_size=4, **given)


def whole(folder: Path) -> HFLM:
    return HFLM(pretrained=str(folder), device="cpu", batch_size=4)


@pytest.fixture(scope="module")
def usual(folder: Path) -> dict[str, list[Finding]]:
    """What each attack finds on the model in one place."""
    return {attack: run_attack(attack, as_target(whole(folder)), CANARIES) for attack in ATTACKS}


@pytest.mark.parametrize("attack", ATTACKS)
def test_canaries(placed: HFLM, usual: dict[str, list[Finding]], attack: str) -> None:
    target = as_target(placed)
    assert isinstance(target, CausalTarget)
    assert target.cached
    for one, other in zip(run_attack(attack, target, CANARIES), usual[attack], strict=True):
        assert (one.rank, one.model_calls) == (other.rank, other.model_calls)
        assert [guess.filling for guess in one.guesses] == [guess.filling for guess in other.guesses]
        assert [guess.score for guess in one.guesses] == pytest.approx([guess.score for guess in other.guesses])


def test_pairs(placed: HFLM, folder: Path) -> None:
    numbers, scheme = np.random.default_rng(0).random((len(PAIRS), 9, 3)), DecodingConfig(temperature=0.5)
    prefixes, suffixes = ([getattr(pair, name) for pair in PAIRS] for name in ("prefix", "suffix"))
    one, other = (suffix_target(each, PAIRS) for each in (placed, whole(folder)))
    for found, usual in zip(*(each.draw(prefixes, numbers, scheme) for each in (one, other)), strict=True):
        assert found.tokens[found.of_draw].tolist() == usual.tokens[usual.of_draw].tolist()
    for found, usual in zip(*(each.score(prefixes, suffixes, scheme) for each in (one, other)), strict=True):
        assert found.drawn == pytest.approx(usual.drawn)


def test_weights_on_disk_are_not_seen(placed: HFLM) -> None:
    if "disk" in getattr(placed.model, "hf_device_map", {}).values():
        with pytest.raises(OptionError, match=r"is not in memory.*pass --metadata model_id=NAME"):
            model_fingerprint(placed, None)
    else:
        assert model_fingerprint(placed, None)["weights"]
