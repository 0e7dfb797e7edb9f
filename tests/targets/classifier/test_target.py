"""Class costs against plain `transformers`, and gradients against finite differences."""

import math

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    CanineConfig,
    ConvBertConfig,
    FNetConfig,
    GPT2Config,
    RobertaConfig,
    XLNetConfig,
)

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import ClassifierTarget
from leakage_tasks.targets.batches import PROBED, room_of
from tests.oracles import direct_class_losses, tiny_bert, wordpiece

TEXTS = ["the cat sat on the mat.", "a dog", "", "red blue green house tree runs fast", "the number is 7 1 2."]


@pytest.fixture
def target() -> ClassifierTarget:
    return ClassifierTarget(tiny_bert(), wordpiece())


@pytest.mark.parametrize("label", [0, 1, 2])
def test_costs_are_those_of_transformers(target, label):
    costs = target.label_costs(target.encode(TEXTS))
    assert costs[:, label] == pytest.approx(direct_class_losses(tiny_bert(), wordpiece(), TEXTS, label), abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_the_batch_size_changes_nothing(target, batch_size):
    other = ClassifierTarget(tiny_bert(), wordpiece(), batch_size=batch_size, max_length=12)
    rows = target.encode(TEXTS * 3)
    assert other.label_costs(rows) == pytest.approx(target.label_costs(rows), abs=1e-5)


def test_a_model_without_a_table_of_embeddings_has_costs_but_no_gradients():
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model = AutoModelForSequenceClassification.from_config(CanineConfig(**size, num_labels=3, pad_token_id=0)).eval()
    target = ClassifierTarget(model, wordpiece())
    assert target.label_costs(target.encode(TEXTS[:2])).shape == (2, 3)
    with pytest.raises(TargetError, match="canine model looks up no embeddings of tokens"):
        target.embeddings()


def test_no_rows_have_no_costs(target):
    assert target.label_costs([]).shape == (0, 3)
    assert target.label_costs(np.zeros((0, 4), dtype=np.int64)).shape == (0, 3)


@pytest.mark.parametrize(
    "config",
    [
        RobertaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, pad_token_id=0),
        GPT2Config(n_embd=32, n_layer=2, n_head=2),
        # They read padding, so texts beside longer ones are read alone.
        ConvBertConfig(
            hidden_size=32, embedding_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            pad_token_id=0,
        ),
        FNetConfig(hidden_size=32, num_hidden_layers=2, intermediate_size=48, pad_token_id=0),
    ],
    ids=lambda config: config.model_type,
)  # fmt: skip
def test_other_architectures_agree_too(config, caplog):
    torch.manual_seed(1)
    config.vocab_size, config.num_labels, config.max_position_embeddings = len(wordpiece()), 4, 40
    config.initializer_range = 0.4
    model = AutoModelForSequenceClassification.from_config(config).eval()
    target = ClassifierTarget(model, wordpiece())
    # As where passes cost more than padding.
    target.most_padding = math.inf
    rows = wordpiece()(TEXTS)["input_ids"]
    found = target.label_costs(rows)
    warned = f"up to {len(set(map(len, rows)))} times as long" in caplog.text
    assert warned == isinstance(config, ConvBertConfig | FNetConfig)
    assert found[:, 2] == pytest.approx(direct_class_losses(model, wordpiece(), TEXTS, 2), abs=1e-4)


def test_what_padding_does_is_found_out_with_two_rows_more_once(target, monkeypatch):
    seen, logits = [], target._logits
    monkeypatch.setattr(target, "most_padding", math.inf)
    monkeypatch.setattr(target, "_logits", lambda ids, mask: [seen.append(len(ids)), logits(ids, mask)][1])
    for _ in range(2):
        target.label_costs(target.encode(TEXTS))
    assert (len(seen), sum(seen)) == (4, 2 * len(TEXTS) + 2)


def test_the_effect_of_padding_is_tested_with_several_tokens_where_lengths_differ_by_one(target, monkeypatch):
    widths, logits = [], target._logits
    monkeypatch.setattr(target, "_logits", lambda ids, mask: [widths.append(ids.shape[1]), logits(ids, mask)][1])
    rows = [[2, 5, 3], [2, 5, 6, 3]]
    target.label_costs(rows)
    assert max(widths) == len(rows[0]) + PROBED


def test_gradients_are_those_of_the_embeddings_read(target):
    row = np.array(target.encode(["the cat sat on the mat"]))
    matrix = target.embeddings()
    embedded = matrix[torch.from_numpy(row)].clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(target.label_costs_of(row, embedded)[0, 1], embedded)
    mask = torch.ones_like(torch.from_numpy(row))
    for place, axis in [(2, 0), (4, 7)]:
        costs = []
        for step in (-1e-2, 1e-2):
            moved = embedded.detach().clone()
            moved[0, place, axis] += step
            with torch.no_grad():
                logits = tiny_bert()(inputs_embeds=moved, attention_mask=mask).logits.double()
            costs.append(-float(logits.log_softmax(-1)[0, 1]) / math.log(2))
        assert float(gradient[0, place, axis]) == pytest.approx((costs[1] - costs[0]) / 2e-2, rel=0.05, abs=2e-4)


def test_reading_other_embeddings_leaves_the_model_as_it_was(target):
    rows = target.encode(TEXTS)
    before = target.label_costs(rows)
    row = np.array(target.encode(["a dog"]))
    target.label_costs_of(row, torch.zeros(1, row.shape[1], 32))
    assert (target.label_costs(rows) == before).all()


def test_an_unknown_label_names_the_known_ones(target):
    with pytest.raises(TargetError, match=r"knows no label 'top' \(it has low, mid, high\)"):
        target.place_of("top")


def test_no_label_names_the_remedy(target):
    with pytest.raises(TargetError, match="has no label.*--label .natural secrets: add .label. to their lines"):
        target.place_of(None)


def test_a_text_too_long_is_refused(target):
    with pytest.raises(TargetError, match="a text of 52 tokens does not fit the model's maximum of 40"):
        target.label_costs(target.encode(["the " * 50]))


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "b"]])
def test_names_must_be_as_many_as_classes_and_differ(names):
    with pytest.raises(TargetError, match="for a model of 3 classes"):
        ClassifierTarget(tiny_bert(), wordpiece(), names)


@pytest.mark.parametrize(
    ("labels", "problem", "message"),
    [(1, None, "regression head"), (3, "multi_label_classification", "multi-label")],
)
def test_a_head_that_gives_no_classes_is_refused(labels, problem, message):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = BertConfig(vocab_size=50, num_labels=labels, problem_type=problem, **sizes)
    with pytest.raises(TargetError, match=message):
        ClassifierTarget(AutoModelForSequenceClassification.from_config(config), wordpiece())


def test_robertas_first_positions_are_not_for_tokens():
    config = RobertaConfig(
        vocab_size=60, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, pad_token_id=1
    )
    config.max_position_embeddings = 66
    assert room_of(AutoModelForSequenceClassification.from_config(config), wordpiece()) == 64


def test_a_model_of_any_length_has_no_negative_room():
    config = XLNetConfig(vocab_size=60, d_model=8, n_layer=1, n_head=1, d_inner=8, pad_token_id=0)
    assert config.max_position_embeddings == -1
    assert room_of(AutoModelForSequenceClassification.from_config(config), wordpiece()) is None
