"""Fine-tuning: it learns, keeps the best snapshot, repeats, and saves what transformers reads."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DistilBertConfig,
    DistilBertForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.victims.classifier import accuracy, fine_tune

SETTINGS = {"learning_rate": 1e-2, "batch_size": 16, "max_length": 16, "device": "cpu"}
LABELS = ("animals", "food", "tools")
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="module")
def run(encoder, wordpiece, topics):
    return fine_tune(encoder.model, topics[:160], topics[160:], tokenizer=wordpiece, epochs=4, **SETTINGS)


def weights(trained):
    return list(trained.model.state_dict().values())


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def right(trained, rows):
    """Share right by plain transformers, a text at a time."""
    with torch.no_grad():
        told = [
            trained.model(**trained.tokenizer(text, return_tensors="pt")).logits.argmax(-1).item() for text, _ in rows
        ]
    return sum(trained.model.config.id2label[n] == label for n, (_, label) in zip(told, rows, strict=True)) / len(rows)


def test_it_learns(run, topics):
    assert run.history[-1].training < run.history[0].training - 0.3
    assert run.history[-1].accuracy > 0.8


def test_labels_are_in_the_config_in_alphabetical_order(run):
    assert run.model.config.id2label == dict(enumerate(LABELS))
    assert run.model.config.label2id == {label: number for number, label in enumerate(LABELS)}


def test_labels_given_keep_their_order(encoder, wordpiece, topics):
    order = ("tools", "nothing", "animals", "food")
    trained = fine_tune(encoder.model, topics[:32], labels=order, tokenizer=wordpiece, epochs=1, **SETTINGS)
    assert tuple(trained.model.config.id2label.values()) == order
    assert trained.model.num_labels == 4


def test_the_snapshot_kept_is_the_best_and_its_scores_are_transformers_own(run, topics):
    best = run.history[run.best_epoch - 1]
    assert best.accuracy == max(scores.accuracy for scores in run.history)
    assert best.accuracy == pytest.approx(right(run, topics[160:]))
    assert accuracy(run.model, run.tokenizer, topics[160:], batch_size=7) == pytest.approx(best.accuracy)


@torch.no_grad()
def test_the_validation_loss_is_the_mean_over_rows_whatever_the_padding(run, topics):
    costs = []
    for text, label in topics[160:]:
        logits = run.model(**run.tokenizer(text, return_tensors="pt")).logits
        costs.append(-float(torch.log_softmax(logits, -1)[0, LABELS.index(label)]))
    assert run.history[run.best_epoch - 1].validation == pytest.approx(sum(costs) / len(costs), abs=1e-5)


def test_the_last_snapshot_on_request(encoder, wordpiece, topics):
    trained = fine_tune(
        encoder.model, topics[:32], topics[32:40], tokenizer=wordpiece, epochs=2, keep="last", **SETTINGS
    )
    assert trained.best_epoch == 2


def test_the_same_arguments_give_the_same_model_and_leave_the_random_state_alone(encoder, wordpiece, topics):
    options = {**SETTINGS, "tokenizer": wordpiece, "epochs": 1}
    before = torch.get_rng_state()
    one = fine_tune(encoder.model, topics[:48], topics[48:64], **options)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    assert same(one, fine_tune(encoder.model, topics[:48], topics[48:64], **options))
    assert not same(one, fine_tune(encoder.model, topics[:48], topics[48:64], seed=1, **options))


def test_the_base_model_stays_as_it_is(encoder, wordpiece, topics):
    before = {name: weight.clone() for name, weight in encoder.model.state_dict().items()}
    fine_tune(encoder.model, topics[:32], tokenizer=wordpiece, epochs=1, **SETTINGS)
    assert all(torch.equal(weight, before[name]) for name, weight in encoder.model.state_dict().items())


def test_it_starts_from_the_encoder_given(encoder, wordpiece, topics):
    still = {**SETTINGS, "learning_rate": 0.0}
    trained = fine_tune(encoder.model, topics[:32], tokenizer=wordpiece, epochs=1, **still)
    kept = encoder.model.bert.state_dict()
    assert all(torch.equal(trained.model.bert.state_dict()[name], weight) for name, weight in kept.items())


def test_saved_it_is_what_transformers_loads(run, topics, tmp_path):
    run.save(tmp_path / "victim")
    run.save(tmp_path / "victim")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "victim")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "victim")
    inputs = tokenizer(topics[0][0], return_tensors="pt")
    with torch.no_grad():
        assert torch.allclose(model(**inputs).logits, run.model(**inputs).logits, atol=1e-6)
    assert model.config.id2label == run.model.config.id2label
    assert [path.name for path in tmp_path.iterdir()] == ["victim"]


@pytest.mark.parametrize(
    ("model", "config"),
    [
        (DistilBertForMaskedLM, DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=32, initializer_range=0.3)),
        (RobertaForMaskedLM, RobertaConfig(**SMALL, initializer_range=0.2)),
    ],
)
def test_a_folder_of_another_architecture_goes_the_same_way(model, config, wordpiece, topics, tmp_path):
    config.vocab_size, config.pad_token_id = len(wordpiece), wordpiece.pad_token_id
    torch.manual_seed(0)
    model(config).save_pretrained(tmp_path)
    wordpiece.save_pretrained(tmp_path)
    trained = fine_tune(tmp_path, topics[:160], topics[160:], epochs=8, **SETTINGS)
    assert trained.history[-1].training < trained.history[0].training - 0.1
    assert trained.model.config.model_type == config.model_type


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"keep": "worst"}, "keep is 'worst'"),
        ({"rows": []}, "no rows"),
        ({"rows": [("a cat", "animals")]}, "there are 1 labels"),
        ({"labels": ["animals", "animals", "food"]}, "2 of them different"),
        ({"validation": [("a car", "vehicles")]}, "label 'vehicles' is not among the 3"),
        ({"max_length": 512}, "max_length is 512"),
        ({"tokenizer": None}, "pass its tokenizer"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(bad, named, encoder, wordpiece, topics):
    options = {"rows": topics[:32], "tokenizer": wordpiece, **SETTINGS, **bad}
    with pytest.raises(OptionError, match=named):
        fine_tune(encoder.model, options.pop("rows"), options.pop("validation", ()), **options)


def test_a_folder_without_a_model_is_named(topics, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(LeakageError, match="no encoder to fine-tune"):
        fine_tune(tmp_path, topics[:32], device="cpu")


def test_accuracy_without_rows_is_refused(run):
    with pytest.raises(OptionError, match="no rows"):
        accuracy(run.model, run.tokenizer, [])


def test_a_folder_that_lacks_the_encoder_s_weights_is_named(encoder, wordpiece, topics, tmp_path):
    kept = {
        name: weight
        for name, weight in encoder.model.state_dict().items()
        if ".layer.0.attention.self.query" not in name
    }
    encoder.model.save_pretrained(tmp_path, state_dict=kept)
    wordpiece.save_pretrained(tmp_path)
    with pytest.raises(
        LeakageError, match=r"has no weights for bert\.encoder\.layer\.0\.attention\.self\.query\.bias and 1"
    ):
        fine_tune(tmp_path, topics[:32], device="cpu")
