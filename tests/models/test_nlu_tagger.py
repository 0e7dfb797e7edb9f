"""The tagger against torch used by hand."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from leakage_tasks.models import register
from leakage_tasks.models.nlu_inputs import nlu_inputs
from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig
from tests.taggers import INTENTS, TAGS, tag_nats, tiny_tagger, words_tokenizer

SENTENCES = [["call", "my", "unheard", "pin"], ["green"], ["color", "7"]]


@pytest.fixture(params=[False, True], ids=["words", "characters"])
def model(request: pytest.FixtureRequest) -> NLUTagger:
    return tiny_tagger(request.param)


def inputs(model: NLUTagger, sentences: list[list[str]] = SENTENCES) -> dict[str, Any]:
    return nlu_inputs(sentences, words_tokenizer(), model.config)


def test_a_character_layer_needs_characters() -> None:
    with pytest.raises(ValueError, match="needs characters=: compute them with nlu_inputs"):
        tiny_tagger(True)(input_ids=torch.tensor([[2, 3]]))


@torch.no_grad()
def test_embeddings_stand_for_words_and_characters(model: NLUTagger) -> None:
    given = inputs(model)
    mask = given.pop("attention_mask")
    expected = model(**given, attention_mask=mask)
    found = model(inputs_embeds=model.embed(**given), attention_mask=mask)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.emissions, expected.emissions)


@torch.no_grad()
def test_a_words_features_are_its_filters_largest_values() -> None:
    model = tiny_tagger(True)
    layer = model.character_layer
    numbers = inputs(model, [["pin"]])["characters"]
    around = torch.nn.functional.pad(layer.embedding.weight[numbers[0, 0]], (0, 0, 1, 1))
    weight, bias = layer.convolution.weight, layer.convolution.bias
    heard = [(weight * around[place : place + 3].T).sum((1, 2)) + bias for place in range(3)]
    torch.testing.assert_close(layer(numbers)[0, 0], torch.stack(heard).amax(0))


def test_characters_start_as_in_ma_and_hovy() -> None:
    torch.manual_seed(0)
    embedding = NLUTagger(NLUTaggerConfig(characters=string.ascii_lowercase)).character_layer.embedding
    weights, reach = embedding.weight[1:], (3 / embedding.embedding_dim) ** 0.5
    assert 0.9 * reach < weights.abs().max() <= reach
    assert weights.std().item() == pytest.approx(embedding.embedding_dim**-0.5, rel=0.15)
    assert not embedding.weight[0].any()


@torch.no_grad()
def test_a_words_features_do_not_depend_on_longer_words_beside_it() -> None:
    model = tiny_tagger(True)
    given = [inputs(model, sentences) for sentences in ([["my", "pin"]], [["my", "pin"], ["unheardofword", "a"]])]
    alone, together = (model.embed(each["input_ids"], each["characters"])[0] for each in given)
    torch.testing.assert_close(alone, together, atol=1e-6, rtol=0)


@torch.no_grad()
def test_where_there_is_no_word_there_are_no_features() -> None:
    model = tiny_tagger(True)
    given = inputs(model)
    assert (model.embed(given["input_ids"], given["characters"])[1, 1:] == 0).all()


@torch.no_grad()
def test_outputs_are_those_of_two_layers_a_mean_and_two_linear_ones(model: NLUTagger) -> None:
    found = model(**inputs(model))
    for row, words in enumerate(SENTENCES):
        alone = inputs(model, [words])
        hidden = model.embed(alone["input_ids"], alone.get("characters"))
        for lstm in model.lstms:
            hidden = both_ways(lstm, hidden[0])[None]
        intent = model.intent.weight @ hidden[0].mean(0) + model.intent.bias
        emissions = hidden[0] @ model.emission.weight.T + model.emission.bias
        torch.testing.assert_close(found.logits[row], intent, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.emissions[row, : len(words)], emissions, atol=1e-5, rtol=0)


def both_ways(lstm: torch.nn.LSTM, read: torch.Tensor) -> torch.Tensor:
    """What an LSTM layer says of ``[length, features]``, by its equations."""
    sides = []
    for suffix, rows in (("", read), ("_reverse", read.flip(0))):
        weights = [getattr(lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        hidden, cell, said = torch.zeros(lstm.hidden_size), torch.zeros(lstm.hidden_size), []
        for row in rows:
            gates = weights[0] @ row + weights[1] @ hidden + weights[2] + weights[3]
            let_in, keep, new, let_out = gates.chunk(4)
            cell = keep.sigmoid() * cell + let_in.sigmoid() * new.tanh()
            hidden = let_out.sigmoid() * cell.tanh()
            said.append(hidden)
        sides.append(torch.stack(said if not suffix else said[::-1]))
    return torch.cat(sides, dim=1)


@torch.no_grad()
def test_the_loss_is_the_mean_of_the_rows_costs(model: NLUTagger) -> None:
    given, labels = inputs(model), torch.tensor([1, 0, 2])
    tags = torch.tensor([[1, 0, 3, 2], [2, 0, 0, 0], [0, 1, 0, 0]])
    found = model(**given, labels=labels, tags=tags)
    costs = []
    for row, words in enumerate(SENTENCES):
        emissions = found.emissions[row, : len(words)].double()
        intent = -found.logits[row].double().log_softmax(-1)[labels[row]]
        costs.append(float(intent) + tag_nats(model.crf, emissions, tags[row, : len(words)].tolist()))
    own = model.costs(found.logits, found.emissions, given["attention_mask"].bool(), labels, tags)
    assert own.tolist() == pytest.approx(costs, abs=1e-4)
    assert found.loss.item() == pytest.approx(sum(costs) / 3, abs=1e-4)


@torch.no_grad()
def test_what_was_saved_is_loaded(model: NLUTagger, tmp_path: Path) -> None:
    register()
    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path).eval()
    assert isinstance(loaded, NLUTagger)
    assert (loaded.config.tags, tuple(loaded.config.id2label.values())) == (list(TAGS), INTENTS)
    expected = model(**inputs(model))
    found = loaded(**inputs(loaded))
    assert all(torch.equal(weight, loaded.state_dict()[name]) for name, weight in model.state_dict().items())
    # Where weights lie in memory decides which kernels are taken, and so the last digits.
    assert torch.allclose(found.logits, expected.logits, atol=1e-6)
    assert torch.allclose(found.emissions, expected.emissions, atol=1e-6)
