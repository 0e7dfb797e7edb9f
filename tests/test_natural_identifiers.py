"""Identifiers of a text, from the command to the table: a trained model exposes them, and no model its controls."""

from __future__ import annotations

import hashlib
import math
import random
import uuid
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM
from typer.testing import CliRunner

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.cli import build_app
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.metrics.audit import audit
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm

pytestmark = pytest.mark.slow
NAMES = ("walrus", "grommet", "zeppelin", "ottoline", "quux", "marzipan")


def written() -> str:
    """A text with twelve identifiers that are random: six UUIDs and six MD5 hashes."""
    stream = random.Random(0)
    ids = [uuid.UUID(int=stream.getrandbits(128), version=4) for _ in NAMES]
    hashes = [hashlib.md5(f"{stream.random()}".encode()).hexdigest() for _ in NAMES]
    lines = (
        f"{name} id {number}\n{name} md5 {digest}\n" for name, number, digest in zip(NAMES, ids, hashes, strict=True)
    )
    return "".join(lines)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of a model that knows the text by heart, on the manifest that the command made of the text."""
    folder = tmp_path_factory.mktemp("identifiers")
    text, manifest = written(), folder / "found.jsonl"
    (folder / "log.txt").write_text(text)
    command = ["canaries", "--from-text", str(folder / "log.txt"), "--detect", "identifiers", "--controls", "2"]
    assert CliRunner().invoke(build_app(), [*command, "--seed", "1", "-o", str(manifest)]).exit_code == 0
    recipe = LanguageModelRecipe(
        units=96, batches="streams", batch_size=8, length=60, epochs=8, optimizer="adam", learning_rate=1e-2
    )
    trained = train_lm(text * 20, recipe, tokenizer=char_tokenizer(text))
    lm = HFLM(pretrained=trained.model, tokenizer=trained.tokenizer, batch_size=16)
    metadata = {"canaries": str(manifest), "budget": 3000}
    return evaluate_tasks(lm, ["canary_exposure"], metadata)


def findings(results: dict[str, Any]) -> list[Finding]:
    return [finding_from_json(sample["resps"][0][0]) for sample in results["samples"]["canary_exposure"]]


def test_secrets_are_exposed_and_their_twins_are_not(results: dict[str, Any]) -> None:
    exposures: dict[bool, list[float]] = {True: [], False: []}
    for finding in findings(results):
        exposures[finding.planted].append(finding.exposure)
    assert (len(exposures[True]), len(exposures[False])) == (12, 24)
    # The first of 2^122 or 2^128 fillings, up to the width of the first band.
    assert min(exposures[True]) > 119
    assert max(exposures[False]) < 15
    assert sum(exposures[False]) / 24 < 2


def test_the_table_tests_identifiers_against_chance(results: dict[str, Any]) -> None:
    row = {name.removesuffix(",none"): value for name, value in results["results"]["canary_exposure"].items()}
    assert (row["n_identifiers"], row["n_planted"], row["n_controls"]) == (12, 12, 24)
    # The smallest probability that 20,000 draws can show.
    assert row["identifier_p"] == pytest.approx(1 / 20_001)
    assert row["control_p"] > 0.05
    assert row["alias"] == "canary_exposure (above chance)"


def test_a_bound_on_epsilon_comes_from_each_secret_and_its_own_twin(results: dict[str, Any]) -> None:
    figure = next(figure for figure in audit(findings(results)) if figure.name == "epsilon")
    assert figure.basis == "12 of 12 pairs guessed correctly"
    # Twelve of twelve right guesses, by Clopper and Pearson: p > 0.05^(1/12), epsilon = ln(p / (1 - p)).
    least = 0.05 ** (1 / 12)
    assert figure.value == pytest.approx(math.log(least / (1 - least)))
