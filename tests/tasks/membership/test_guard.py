"""The guard of the task ``membership`` inside the harness: a planted date shift is refused, a real signal is shown."""

from __future__ import annotations

import copy
import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.metrics import roc_auc_score

from leakage_tasks.attacks.membership.blind.baselines import BASELINES
from leakage_tasks.attacks.membership.blind.scores import blind_scores
from leakage_tasks.metrics.conclusion import Verdict
from leakage_tasks.metrics.verdict import verdict_of
from tests.oracles import letters, tiny_gpt2
from tests.targets.text_models import hf
from tests.tasks.membership.test_task import TASK, evaluate, findings, rows

NUMBER, STEPS = 60, 100
WORDS = ["the", "pin", "of", "my", "old", "house", "is", "not", "red", "and", "blue", "dog", "saw", "two", "cats"]
Texts = tuple[str, ...]


@lru_cache
def dated(seed: int, first: int = 1990) -> Texts:
    """Sentences with a year of the ten years from ``first`` on."""
    stream = random.Random(seed)
    return tuple(f"{' '.join(stream.choices(WORDS, k=6))} in {first + stream.randrange(10)}" for _ in range(NUMBER))


@lru_cache
def learnt(steps: int = STEPS) -> Any:
    """A small model that has learnt the sentences of seed 0, with years from 1990 on."""
    model = copy.deepcopy(tiny_gpt2(letters())).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    encoded = [[letters().bos_token_id, *letters()(text, add_special_tokens=False)["input_ids"]] for text in dated(0)]
    longest = max(map(len, encoded))
    ids, labels = (torch.tensor([[*row, *[pad] * (longest - len(row))] for row in encoded]) for pad in (0, -100))
    for _ in range(steps):
        optimizer.zero_grad()
        model(ids, labels=labels).loss.backward()
        optimizer.step()
    return model.eval()


def run(folder: Path, members: Texts, nonmembers: Texts) -> dict[str, Any]:
    """The results of the task."""
    for name, texts in (("members", members), ("nonmembers", nonmembers)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    return evaluate(hf(letters(), learnt()), folder, attacks="loss:zlib:min-k")


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results on texts of which the model has learnt none, and whose years tell members from the others."""
    return run(tmp_path_factory.mktemp("shifted"), dated(1), dated(2, 2015))


def verdict(results: dict[str, Any]) -> Verdict:
    declared = results["configs"][TASK]["leakage"]
    values = {name: value for name, value in rows(results).items() if value != "N/A"}
    found = verdict_of({**declared["hidden_metrics"], **values}, declared["tested"])
    assert found is not None
    return found


@pytest.mark.slow
def test_a_date_shift_that_every_attack_recognizes_is_refused(shifted: dict[str, Any]) -> None:
    """The model has learnt other sentences of the members' years, and none of the members."""
    for found in ("auc_loss", "auc_zlib", "auc_min_k"):
        assert rows(shifted)[found] > 0.9
    assert rows(shifted)["membership_auc_ci_low"] > 0.7
    told = verdict(shifted)
    assert told.short == "inconclusive"
    assert told.because.startswith("the texts differ without the model")
    assert shifted["configs"][TASK]["leakage"]["hidden_metrics"]["conclusive"] == 0
    assert shifted["configs"][TASK]["task_alias"].endswith(": inconclusive)")


def test_members_that_the_model_has_learnt_are_shown(tmp_path: Path) -> None:
    results = run(tmp_path, dated(0), dated(2))
    told = verdict(results)
    assert told.label == "above the best blind baseline"
    assert results["configs"][TASK]["leakage"]["hidden_metrics"]["conclusive"] == 1
    assert rows(results)["dataset_p"] < 0.01 < 0.05 < rows(results)["dataset_p_blind"]


def test_a_model_that_has_seen_neither_is_not_above_chance(tmp_path: Path) -> None:
    results = run(tmp_path, dated(1), dated(2))
    assert verdict(results).short == "not above chance"
    assert rows(results)["dataset_p"] > 0.05


def test_blind_scores_are_in_the_samples_and_the_texts_are_not(shifted: dict[str, Any]) -> None:
    texts, members = [*dated(1), *dated(2, 2015)], [True] * NUMBER + [False] * NUMBER
    expected = blind_scores(texts, members)
    for finding in findings(shifted):
        place = finding.text if finding.member else NUMBER - 1 - finding.text
        assert finding.blind == {name: expected[name][place] for name in BASELINES}
    assert roc_auc_score(members, expected["dates"]) > 0.95
    logged = json.dumps(shifted["samples"])
    assert not any(word in logged for word in ("house", "cats"))


def test_texts_too_few_for_a_cross_validation_have_no_headline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each class is one cluster for the baselines, because its texts are equal."""
    results = run(tmp_path, dated(1), ("the red dog saw my old house",) * 4)
    declared = results["configs"][TASK]["leakage"]
    assert declared["no_headline"].startswith("no blind baseline shows if the texts differ")
    assert "no blind baselines, so no verdict: members and non-members need two clusters each" in caplog.text
