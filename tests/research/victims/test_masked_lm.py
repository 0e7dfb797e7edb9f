"""Masked language modelling: BERT's masking, only what is not frozen learns, repeatable."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from transformers import AutoModelForMaskedLM

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.masked_lm import (
    IGNORED,
    mask_tokens,
    pretrain_masked_lm,
    train_masked_lm,
    train_unfrozen,
)

SMALL = {"layers": 1, "hidden": 16, "batch_size": 16, "max_length": 16, "device": "cpu"}


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

    monkeypatch.setattr("leakage_tasks.research.victims.masked_lm.mask_tokens", note)
    options = {**SMALL, "batch_size": 64, "epochs": 1, "learning_rate": 0.0}
    monkeypatch.setattr("leakage_tasks.research.victims.masked_lm.train_unfrozen", lambda model: model.eval())
    trained = pretrain_masked_lm(texts, wordpiece, **options)
    attention = (seen["shown"] != wordpiece.pad_token_id).long()
    oracle = trained.model(input_ids=seen["shown"], attention_mask=attention, labels=seen["targets"]).loss
    assert trained.losses[0] == pytest.approx(oracle.item(), abs=1e-5)


def test_the_same_arguments_give_the_same_model_and_leave_the_random_state_alone(texts, wordpiece):
    before = torch.get_rng_state()
    one = pretrain_masked_lm(texts, wordpiece, epochs=1, **SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    two = pretrain_masked_lm(texts, wordpiece, epochs=1, **SMALL)
    other = pretrain_masked_lm(texts, wordpiece, epochs=1, seed=1, **SMALL)
    weights = [list(run.model.state_dict().values()) for run in (one, two, other)]
    assert all(torch.equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(weights[0], weights[2], strict=True))


def test_frozen_parameters_stay_to_the_bit_and_the_rest_learns(texts, wordpiece, encoder):
    model = with_encoder_frozen(encoder)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    train_masked_lm(model, wordpiece, texts, epochs=1, learning_rate=1e-2, device="cpu")
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
        train_masked_lm(model, wordpiece, texts, device="cpu")


def test_a_tokenizer_without_a_mask_is_refused(texts, wordpiece, encoder):
    unmasked = copy.deepcopy(wordpiece)
    unmasked.mask_token = None
    with pytest.raises(OptionError, match="mask"):
        train_masked_lm(encoder.model, unmasked, texts, device="cpu")


@pytest.mark.parametrize(
    ("bad", "named"),
    [({"epochs": 0}, "epochs"), ({"heads": 3}, "heads 3"), ({"layers": 0}, "layers"), ({"texts": []}, "no text")],
)
def test_settings_out_of_range_are_refused(bad, named, wordpiece):
    options = {"texts": ["the cat"], **SMALL, **bad}
    with pytest.raises(OptionError, match=named):
        pretrain_masked_lm(options.pop("texts"), wordpiece, **options)


def test_a_text_longer_than_the_model_reads_is_named(texts, wordpiece, encoder):
    with pytest.raises(OptionError, match=r"max_length is 500: the model reads 128"):
        train_masked_lm(encoder.model, wordpiece, texts, max_length=500, device="cpu")
