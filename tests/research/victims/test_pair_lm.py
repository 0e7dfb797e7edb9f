"""A model that knows part of its pairs by heart: measured as decoding would, repeatable, ready for the harness."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.pair_corpus import PairCorpus
from leakage_tasks.research.victims.pair_lm import SMOKE, PairRecipe, lab_pair_lm
from leakage_tasks.research.victims.pair_training import (
    PROBE,
    PairLM,
    PairTraining,
    greedy_recall,
    read_on,
    train_pair_lm,
)

TINY = PairTraining(layers=1, hidden=16, heads=2, positions=32, epochs=1, filler=(2, 8))


@pytest.fixture(scope="module")
def corpus() -> PairCorpus:
    return SMOKE.corpus()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, float]:
    folder = tmp_path_factory.mktemp("lab") / "smoke"
    return folder, lab_pair_lm(SMOKE, folder, device="cpu")


@pytest.fixture(scope="module")
def lab(made) -> Path:
    return made[0]


@pytest.fixture(scope="module")
def recall(made) -> float:
    return made[1]


@pytest.fixture(scope="module")
def model(lab):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(lab / "model")


def generated_whole(model, corpus: PairCorpus) -> float:
    """The share of suffixes that transformers' own greedy decoding gives back."""
    ids = torch.from_numpy(corpus.prefixes)
    length = corpus.suffixes.shape[1]
    output = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=length, min_new_tokens=length
    )
    return float((output[:, ids.shape[1] :].numpy() == corpus.suffixes).all(axis=1).mean())


def weights(trained: PairLM) -> dict[str, torch.Tensor]:
    return trained.model.state_dict()


@pytest.mark.slow
def test_the_smoke_recipe_learns_some_pairs_by_heart_and_not_all(recall):
    assert 0.3 <= recall <= 0.6


@pytest.mark.slow
def test_recall_is_what_greedy_decoding_gets_out_of_the_saved_model(recall, model, corpus):
    assert generated_whole(model, corpus) == pytest.approx(recall)


def test_other_text_is_not_known_by_heart(model, corpus):
    rows = corpus.filler[:200]
    assert greedy_recall(model, rows[:, :12], rows[:, 12:]) < 0.05


def test_training_stops_with_the_first_epoch_that_recalls_enough(lab):
    recalls = json.loads((lab / "recipe.json").read_text(encoding="utf-8"))["recalls"]
    assert recalls[-1] >= SMOKE.until
    assert all(recall < SMOKE.until for recall in recalls[:-1])


def test_the_saved_pairs_are_those_learnt(lab, corpus):
    assert (np.load(lab / "pairs" / "train_prefix.npy", allow_pickle=False) == corpus.prefixes).all()
    assert (np.load(lab / "pairs" / "train_suffix.npy", allow_pickle=False) == corpus.suffixes).all()


def test_the_harness_runs_the_folder(lab, model):
    from lm_eval.models.huggingface import HFLM

    from leakage_tasks.harness.generation import request

    harness = HFLM(pretrained=str(lab / "model"), device="cpu", batch_size=1)
    request = request("loglikelihood", {}, ("If the object is", " not hashable,"), 0)
    ((found, _),) = harness.loglikelihood([request], disable_tqdm=True)
    context, whole = (harness.tok_encode(text) for text in ("If the object is", "If the object is not hashable,"))
    costs = (
        model(torch.tensor([whole])).logits[0].detach().log_softmax(-1)[:-1].gather(1, torch.tensor(whole[1:])[:, None])
    )
    assert found == pytest.approx(float(costs[len(context) - 1 :].sum()), abs=1e-3)


def test_the_same_arguments_give_the_same_model(corpus):
    first, second = (train_pair_lm(corpus, TINY, device="cpu") for _ in range(2))
    assert all(torch.equal(weights(first)[name], weights(second)[name]) for name in weights(first))
    assert first.losses == second.losses


def test_another_seed_gives_another_model(corpus):
    first, second = (train_pair_lm(corpus, TINY, seed=seed, device="cpu") for seed in (0, 1))
    assert first.losses != second.losses


def test_the_caller_s_random_state_is_left_alone(corpus):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    train_pair_lm(corpus, TINY, device="cpu")
    assert torch.equal(torch.rand(1), expected)


def test_the_first_loss_is_transformers_own(corpus):
    # At a rate of 0 and with nothing before the pairs, the loss is the fresh model's on the suffixes.
    trained = train_pair_lm(
        corpus, dataclasses.replace(TINY, filler=(0, 0), learning_rate=0.0), device="cpu", bf16=False
    )
    rows = torch.from_numpy(np.concatenate([corpus.prefixes, corpus.suffixes], axis=1))
    labels = rows.clone()
    labels[:, : corpus.prefixes.shape[1]] = -100
    assert trained.losses[0] == pytest.approx(trained.model(rows, labels=labels).loss.item(), abs=1e-4)


def test_pairs_are_shown_after_other_text_of_the_lengths_asked_for(corpus, monkeypatch):
    from leakage_tasks.research.victims import pair_training

    seen = []
    logits = pair_training._logits
    monkeypatch.setattr(pair_training, "_logits", lambda model, ids, last: seen.append(ids) or logits(model, ids, last))
    train_pair_lm(corpus, dataclasses.replace(TINY, epochs=30, batch_size=30), device="cpu", bf16=False)
    # Recall is measured on all 60 pairs at once.
    shown = [ids.numpy() for ids in seen if len(ids) == 30]
    assert {ids.shape[1] - 20 for ids in shown} == set(range(2, 9))
    pairs = set(map(tuple, np.concatenate([corpus.prefixes, corpus.suffixes], axis=1).tolist()))
    tails = {length: set(map(tuple, corpus.filler[:, -length:].tolist())) for length in range(2, 9)}
    for ids in shown:
        assert set(map(tuple, ids[:, -20:].tolist())) <= pairs
        assert set(map(tuple, ids[:, :-20].tolist())) <= tails[ids.shape[1] - 20]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 18}, "hidden is 18 and heads 2"),
        ({"filler": (0, 21)}, "filler is 0 to 21: .* up to 20"),
        ({"filler": (5, 4)}, "filler is 5 to 4: use two numbers in order"),
        ({"positions": 27}, "positions is 27: .* up to 28 tokens"),
        ({"until": 40}, "until is 40: use a share"),
        ({"epochs": 0}, "epochs is 0: give 1 or more"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(corpus, options, message):
    with pytest.raises(OptionError, match=message):
        train_pair_lm(corpus, dataclasses.replace(TINY, **options), device="cpu")


def test_public_pairs_have_their_own_lengths():
    with pytest.raises(OptionError, match=r"50 \+ 50 tokens"):
        dataclasses.replace(SMOKE, public=True).corpus()


def test_an_older_folder_is_replaced_whole(tmp_path):
    older = tmp_path / "lab"
    older.mkdir()
    (older / "stale").touch()
    recipe = dataclasses.replace(SMOKE, epochs=1)
    lab_pair_lm(recipe, older, device="cpu")
    assert sorted(path.name for path in older.iterdir()) == ["model", "pairs", "recipe.json"]


def test_other_text_is_read_after_the_pairs(tmp_path, corpus):
    from transformers import AutoModelForCausalLM

    recipe = dataclasses.replace(SMOKE, epochs=1)
    after = lab_pair_lm(recipe, tmp_path / "lab", device="cpu", reading=2, reading_rate=1e-2)
    trained = train_pair_lm(corpus, recipe, device="cpu").model
    before = {name: weight.clone() for name, weight in trained.state_dict().items()}
    read_on(trained, corpus, 2, 1e-2)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "lab" / "model").state_dict()
    assert all(torch.equal(weight, saved[name]) for name, weight in trained.state_dict().items())
    assert not all(torch.equal(weight, saved[name]) for name, weight in before.items())
    assert after == greedy_recall(trained, corpus.prefixes[:PROBE], corpus.suffixes[:PROBE])
    assert json.loads((tmp_path / "lab" / "recipe.json").read_text(encoding="utf-8"))["after"] == after


def test_a_recipe_survives_json():
    recipe = dataclasses.replace(SMOKE, filler=(1, 7))
    assert PairRecipe.from_json(json.loads(json.dumps(dataclasses.asdict(recipe)))) == recipe
