"""``leakage quantize`` from folder to folder, for each kind of model, and what it refuses."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
)

from leakage_tasks.models import register
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.training.char_lstm import fresh_model

SMALL = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}


@pytest.fixture
def lstm(tmp_path):
    tokenizer = char_tokenizer("abc \n")
    for each in (fresh_model(tokenizer, 0, 20, 1), tokenizer):
        each.save_pretrained(tmp_path / "lstm")
    return tmp_path / "lstm"


def files(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_it_writes_a_folder_that_loads_with_its_tokenizer(ran, lstm, tmp_path):
    register()
    before = files(lstm)
    out, _ = ran("quantize", lstm, "-o", tmp_path / "out", "--levels", 16)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert all(weight.unique().numel() <= 16 for weight in model.parameters())
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("abc")["input_ids"] == [4, 5, 6]
    assert "LSTM.weight_hh" in out
    assert f"{model.num_parameters():,} weights, at most 16 values per tensor" in out
    assert "by zlib (" in out
    assert files(lstm) == before
    assert {each.name for each in tmp_path.iterdir()} == {"lstm", "out"}


def test_a_classifier_stays_one_and_the_missing_tokenizer_is_said(leakage, tmp_path):
    BertForSequenceClassification(BertConfig(**SMALL, num_labels=5)).save_pretrained(tmp_path / "in")
    code, out, _ = leakage("quantize", tmp_path / "in", "-o", tmp_path / "out", "--levels", 4)
    assert (code, "the model has no tokenizer" in out) == (0, True)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.classifier.weight.shape == (5, 8)
    assert model.classifier.weight.unique().numel() <= 4


def test_an_encoder_decoder_stays_one_tied_and_in_its_precision(leakage, tmp_path):
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 20}
    T5ForConditionalGeneration(T5Config(**sizes)).to(torch.bfloat16).save_pretrained(tmp_path / "in")
    assert leakage("quantize", tmp_path / "in", "-o", tmp_path / "out", "--levels", 4)[0] == 0
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("in", "out"))
    assert {name: (weight.dtype, weight.shape) for name, weight in one.items()} == {
        name: (weight.dtype, weight.shape) for name, weight in two.items()
    }
    assert all(weight.unique().numel() <= 4 for weight in two.values())


def test_an_earlier_model_is_replaced_and_other_things_are_not(leakage, refused, lstm, tmp_path):
    assert leakage("quantize", lstm, "-o", tmp_path / "out", "--levels", 4)[0] == 0
    assert leakage("quantize", lstm, "-o", tmp_path / "out", "--levels", 8)[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    assert "contains other files than a model" in refused("quantize", lstm, "-o", tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_trainer_s_folder_is_not_replaced_by_its_own_checkpoint_nor_by_another(leakage, lstm, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(lstm, own)
    shutil.copytree(lstm, own / "checkpoint-5")
    before = sorted(own.rglob("*"))
    for source, said in ((own / "checkpoint-5", "or is inside it"), (lstm, "other files than a model (checkp")):
        code, _, err = leakage("quantize", source, "-o", own)
        assert (code, err.count("\n"), said in err) == (2, 1, True), err
    assert sorted(own.rglob("*")) == before


def test_a_model_s_folder_with_a_file_of_another_kind_is_not_replaced(leakage, lstm, tmp_path):
    shutil.copytree(lstm, tmp_path / "mine")
    (tmp_path / "mine" / "notes.txt").write_text("")
    assert "(notes.txt), which would be lost" in leakage("quantize", lstm, "-o", tmp_path / "mine")[2]


def test_what_cannot_be_done_is_one_line_and_leaves_nothing(leakage, lstm, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "strange").mkdir()
    config = (lstm / "config.json").read_text()
    (tmp_path / "strange" / "config.json").write_text(config.replace("CharLSTMForCausalLM", "SomebodysModel"))
    (lstm / "a_file").write_text("")
    before = sorted(tmp_path.rglob("*"))
    for words, said in (
        ((tmp_path / "none", "-o", tmp_path / "out"), "no such folder"),
        ((tmp_path / "empty", "-o", tmp_path / "out"), "no model can be loaded from there"),
        ((tmp_path / "strange", "-o", tmp_path / "out"), "'SomebodysModel', which transformers does not have"),
        ((lstm, "-o", lstm), "is the model itself"),
        ((lstm, "-o", lstm / "out"), "or is inside it"),
        ((lstm, "-o", lstm / "a_file"), "is a file"),
        ((lstm, "-o", tmp_path / "no" / "out"), "make it first"),
        ((lstm, "-o", tmp_path / "out", "--levels", 1), "levels is 1"),
    ):
        code, _, err = leakage("quantize", *words)
        assert (code, err.startswith("leakage: "), err.count("\n")) == (2, True, 1), err
        assert said in err
    assert sorted(tmp_path.rglob("*")) == before
