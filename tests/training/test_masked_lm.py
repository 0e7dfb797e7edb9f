"""Masked language modelling: BERT's masking, only what is not frozen learns, repeatable; a head's public text."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM

from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.research.victims.masked_lm import pretrain_masked_lm
from leakage_tasks.training.masked_lm import (
    IGNORED,
    MaskedRecipe,
    mask_tokens,
    public_texts,
    train_masked_lm,
    train_unfrozen,
)

SIZES = {"layers": 1, "hidden": 16}
SMALL = MaskedRecipe(epochs=1, batch_size=16, max_length=16, device="cpu")


def with_encoder_frozen(encoder):
    """A copy whose head alone is trained; its decoder no longer shares the embeddings' weight."""
    model = copy.deepcopy(encoder.model)
    decoder = model.cls.predictions.decoder
    decoder.weight = torch.nn.Parameter(decoder.weight.detach().clone())
    model.bert.requires_grad_(False)
    return model


@pytest.fixture
def texts(topics):
    return [text for text, _ in topics[:64]]


def test_masks_have_bert_s_shares_and_targets_are_the_tokens_themselves():
    torch.manual_seed(0)
    ids = torch.randint(5, 1000, (200, 500))
    maskable = torch.ones_like(ids, dtype=torch.bool)
    maskable[:, 0] = False
    shown, targets = mask_tokens(ids, maskable, 4, 1000)
    chosen = targets != IGNORED
    assert torch.equal(targets[chosen], ids[chosen])
    assert torch.equal(shown[~chosen], ids[~chosen])
    assert not bool(chosen[:, 0].any())
    assert float(chosen[:, 1:].float().mean()) == pytest.approx(0.15, abs=0.005)
    assert float((shown[chosen] == 4).float().mean()) == pytest.approx(0.8, abs=0.02)
    assert float((shown[chosen] == ids[chosen]).float().mean()) == pytest.approx(0.1, abs=0.02)


def test_the_loss_falls_below_that_of_guessing(encoder, wordpiece):
    assert encoder.losses[-1] < encoder.losses[0] - 0.3
    assert encoder.losses[-1] < math.log(len(wordpiece)) / 1.5
    assert not encoder.model.training


def test_the_first_loss_is_transformers_own(texts, wordpiece, monkeypatch):
    # Learning rate 0 and one batch: the reported loss is that of the fresh model on the batch it saw.
    seen = {}
    mask = mask_tokens

    def note(*arguments):
        seen["shown"], seen["targets"] = mask(*arguments)
        return seen["shown"], seen["targets"]

    monkeypatch.setattr("leakage_tasks.training.masked_lm.mask_tokens", note)
    how = replace(SMALL, batch_size=64, learning_rate=0.0)
    monkeypatch.setattr("leakage_tasks.training.masked_lm.train_unfrozen", lambda model: model.eval())
    trained = pretrain_masked_lm(texts, wordpiece, how, **SIZES)
    attention = (seen["shown"] != wordpiece.pad_token_id).long()
    oracle = trained.model(input_ids=seen["shown"], attention_mask=attention, labels=seen["targets"]).loss
    assert trained.losses[0] == pytest.approx(oracle.item(), abs=1e-5)


def test_the_same_arguments_give_the_same_model_and_leave_the_random_state_alone(texts, wordpiece):
    before = torch.get_rng_state()
    one = pretrain_masked_lm(texts, wordpiece, SMALL, **SIZES)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    two = pretrain_masked_lm(texts, wordpiece, SMALL, **SIZES)
    other = pretrain_masked_lm(texts, wordpiece, replace(SMALL, seed=1), **SIZES)
    weights = [list(run.model.state_dict().values()) for run in (one, two, other)]
    assert all(torch.equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(weights[0], weights[2], strict=True))


def test_frozen_parameters_stay_to_the_bit_and_the_rest_learns(texts, wordpiece, encoder):
    model = with_encoder_frozen(encoder)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    train_masked_lm(model, wordpiece, texts, MaskedRecipe(epochs=1, learning_rate=1e-2, device="cpu"))
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed
    assert all(name.startswith("cls.") for name in changed)


def test_a_frozen_encoder_has_no_dropout_while_the_head_has_its_training(encoder):
    model = with_encoder_frozen(encoder)
    train_unfrozen(model)
    assert not any(module.training for module in model.bert.modules())
    assert all(module.training for module in model.cls.modules())


def test_nothing_frozen_means_everything_trains(encoder):
    model = copy.deepcopy(encoder.model)
    train_unfrozen(model)
    assert all(module.training for module in model.modules())


def test_saved_and_loaded_it_fills_masks_alike(encoder, wordpiece, tmp_path):
    encoder.model.save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    ids = torch.tensor([wordpiece.encode("the old [MASK] is near")])
    assert torch.allclose(loaded(ids).logits, encoder.model(ids).logits, atol=1e-6)


def test_a_model_with_everything_frozen_is_refused(texts, wordpiece, encoder):
    model = copy.deepcopy(encoder.model).requires_grad_(False)
    with pytest.raises(OptionError, match="frozen"):
        train_masked_lm(model, wordpiece, texts, SMALL)


def test_a_tokenizer_without_a_mask_is_refused(texts, wordpiece, encoder):
    unmasked = copy.deepcopy(wordpiece)
    unmasked.mask_token = None
    with pytest.raises(OptionError, match="mask"):
        train_masked_lm(encoder.model, unmasked, texts, SMALL)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"how": replace(SMALL, epochs=0)}, "epochs"),
        ({"heads": 3}, "heads 3"),
        ({"layers": 0}, "layers"),
        ({"texts": []}, "no text"),
    ],
)
def test_settings_out_of_range_are_refused(bad, named, wordpiece):
    with pytest.raises(OptionError, match=named):
        pretrain_masked_lm(**{"texts": ["the cat"], "tokenizer": wordpiece, "how": SMALL, **SIZES, **bad})


def test_a_text_longer_than_the_model_reads_is_named(texts, wordpiece, encoder):
    with pytest.raises(OptionError, match=r"max_length is 500: the model reads 128"):
        train_masked_lm(encoder.model, wordpiece, texts, replace(SMALL, max_length=500))


def test_rows_are_cut_into_pieces_and_stay_apart(tmp_path: Path) -> None:
    rows = [{"text": "the river\nis green"}, {"text": " ".join(["of"] * 170)}, {"text": ""}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = list(public_texts(tmp_path / "rows.jsonl"))
    assert [len(text.split()) for text in found] == [4, 80, 80, 10]
    assert found[0] == "the river is green"


def test_a_text_file_runs_on_over_its_lines(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one two\nthree\n" * 40)
    found = list(public_texts(tmp_path / "text.txt"))
    assert [len(text.split()) for text in found] == [80, 40]
    assert found[0].startswith("one two three one")


def test_a_file_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.doc").write_text("words")
    with pytest.raises(PlantingError, match="unknown kind of file '.doc'"):
        list(public_texts(tmp_path / "text.doc"))
