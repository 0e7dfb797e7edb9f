"""The LSTM: its arithmetic, its state, its masks, and its life in the harness; the GRU against its equations."""

from __future__ import annotations

import pytest
import torch

from leakage_tasks.harness.generation import request
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.models.states import LayersFirst
from tests.models.families import tiny


def by_hand(model: CharLSTMForCausalLM, ids: list[int]) -> torch.Tensor:
    """Logits [length, vocabulary] from the LSTM's equations, one place and one layer at a time."""
    weights = dict(model.lstm.named_parameters())
    layers, size = model.config.num_hidden_layers, model.config.hidden_size
    h, c = torch.zeros(layers, size), torch.zeros(layers, size)
    rows = []
    for token in ids:
        x = model.embedding.weight[token]
        for layer in range(layers):
            gates = weights[f"weight_ih_l{layer}"] @ x + weights[f"bias_ih_l{layer}"]
            gates = gates + weights[f"weight_hh_l{layer}"] @ h[layer] + weights[f"bias_hh_l{layer}"]
            entry, forget, cell, out = gates.chunk(4)
            c[layer] = forget.sigmoid() * c[layer] + entry.sigmoid() * cell.tanh()
            h[layer] = out.sigmoid() * c[layer].tanh()
            x = h[layer].clone()
        rows.append(model.head.weight @ x + model.head.bias)
    return torch.stack(rows)


@torch.no_grad()
def test_forward_is_the_lstm_of_the_equations(model):
    ids = torch.randint(len(model.embedding.weight), (3, 11), generator=torch.Generator().manual_seed(1))
    logits = model(ids).logits
    for row, expected in zip(logits, (by_hand(model, row.tolist()) for row in ids), strict=True):
        torch.testing.assert_close(row, expected, atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize(("name", "cut"), [("char_lstm", 1), ("char_lstm", 9), ("char_gru", 4)])
def test_a_state_with_its_layers_first_is_continued_in_that_form(name, cut):
    model = tiny(name)
    ids = torch.randint(25, (4, 10), generator=torch.Generator().manual_seed(2))
    whole = model(ids).logits
    first = model(ids[:, :cut], use_cache=True)
    state, parts = LayersFirst(part.transpose(0, 1).contiguous() for part in first.past_key_values), [first.logits]
    for place in range(cut, 10):
        step = model(ids[:, place : place + 1], past_key_values=state, use_cache=True)
        state, parts = step.past_key_values, [*parts, step.logits]
        assert isinstance(state, LayersFirst)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=0)


@torch.no_grad()
def test_labels_give_the_mean_loss_of_the_next_tokens(model):
    ids = torch.randint(25, (2, 6), generator=torch.Generator().manual_seed(5))
    labels = ids.clone()
    labels[1, 3:] = -100
    out = model(ids, labels=labels)
    costs = -out.logits.log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    expected = torch.cat([costs[0], costs[1, :2]]).mean()
    torch.testing.assert_close(out.loss, expected)
    assert len(model(ids, use_cache=False, return_dict=False)) == 1


def test_the_default_size_is_the_papers():
    assert CharLSTMForCausalLM(CharLSTMConfig()).num_parameters() == 620_145


@pytest.fixture(scope="module")
def harness(folder):
    from lm_eval.models.huggingface import HFLM

    return HFLM(str(folder), device="cpu", batch_size=2)


def ask(harness, kind: str, *arguments: tuple) -> list:
    requests = [request(kind, {}, argument, place) for place, argument in enumerate(arguments)]
    return getattr(harness, kind)(requests, disable_tqdm=True)


def test_the_harness_knows_it_as_a_causal_model(folder, caplog):
    from lm_eval.models.huggingface import HFLM

    with caplog.at_level("WARNING"):
        lm = HFLM(str(folder), device="cpu")
    assert lm.backend == "causal"
    assert lm.max_length == 2048
    assert "CausalLM" not in caplog.text


@torch.no_grad()
def test_the_harness_loglikelihood_is_the_models(harness, model, tokenizer):
    pairs = [("abc 12", "3 de.\n"), ("", "hij"), ("a", "b")]
    answers = ask(harness, "loglikelihood", *pairs)
    for (context, rest), (value, _) in zip(pairs, answers, strict=True):
        ids = torch.tensor([tokenizer.encode(context) or [tokenizer.bos_token_id]])
        ids = torch.cat([ids, torch.tensor([tokenizer.encode(rest)])], dim=1)
        costs = model(ids).logits.log_softmax(-1)[0, :-1].gather(-1, ids[0, 1:, None])
        assert value == pytest.approx(float(costs[-len(rest) :].sum()), abs=1e-4)


def test_generation_samples_too(harness):
    options = {"until": ["zz"], "max_gen_toks": 24, "do_sample": True, "temperature": 1.0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        texts = {ask(harness, "generate_until", ("ab", options), ("c 1", options))[0] for _ in range(3)}
    assert len(texts) > 1


@torch.no_grad()
def test_forward_is_the_gru_of_the_equations():
    model = tiny("char_gru")
    weights = dict(model.gru.named_parameters())
    ids = torch.randint(25, (9,), generator=torch.Generator().manual_seed(1))
    h, rows = torch.zeros(2, 16), []
    for token in ids:
        x = model.embedding.weight[token]
        for layer in range(2):
            reset, update, new = (weights[f"weight_ih_l{layer}"] @ x + weights[f"bias_ih_l{layer}"]).chunk(3)
            back = (weights[f"weight_hh_l{layer}"] @ h[layer] + weights[f"bias_hh_l{layer}"]).chunk(3)
            keep = (update + back[1]).sigmoid()
            h[layer] = (1 - keep) * (new + (reset + back[0]).sigmoid() * back[2]).tanh() + keep * h[layer]
            x = h[layer].clone()
        rows.append(model.head.weight @ x + model.head.bias)
    torch.testing.assert_close(model(ids[None]).logits[0], torch.stack(rows), atol=1e-5, rtol=0)
