"""The fast target against `transformers` used directly."""

import numpy as np
import pytest
import torch

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal import reader
from tests.oracles import direct_costs, letters, merging, tiny_gpt2

TEXTS = ["the pin is 1234.", "x", "code ab7-z and some more words", "19"]


def stepped(target, tokens, half):
    """Log-perplexity with everything after ``half`` tokens read one by one."""
    columns = np.arange(len(target.tokenizer))
    state, total, costs = target.start(tokens[:half], columns)
    for token in tokens[half:]:
        total += costs[0, token]
        state, costs = target.extend(state, np.array([token]), columns)
    return total


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_log_perplexity_is_that_of_the_whole_text_after_bos(batch_size):
    model, tokenizer = tiny_gpt2(merging()), merging()
    target = CausalTarget(model, tokenizer, batch_size=batch_size)
    assert target.log_perplexity(TEXTS) == pytest.approx(direct_costs(model, tokenizer, TEXTS), abs=1e-3)


def test_tokens_of_long_documents_are_not_cached():
    target = CausalTarget(tiny_gpt2(letters()), letters())
    for number in range(3):
        for text in (f"{number} short", f"{number} long " * 1000):
            assert target.encode([text]) == target.encode([text, ""])[:1] == [letters()(text)["input_ids"]]
    assert target._encoded_alone.cache_info().currsize == 3


def test_a_text_that_begins_with_the_prefix_token_is_not_given_another():
    model, tokenizer = tiny_gpt2(merging()), merging()
    target = CausalTarget(model, tokenizer)
    assert target.log_perplexity([tokenizer.bos_token + "the pin"]) == pytest.approx(target.log_perplexity(["the pin"]))


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("half", [0, 1, 4])
def test_token_by_token_equals_one_pass(half, cached):
    model, tokenizer = tiny_gpt2(merging()), merging()
    target = CausalTarget(model, tokenizer, cached=cached)
    tokens = target.encode(TEXTS[:1])[0]
    assert stepped(target, tokens, half) == pytest.approx(direct_costs(model, tokenizer, TEXTS[:1])[0], abs=1e-3)


def test_a_batch_holds_no_more_positions_than_the_harness_would():
    target = CausalTarget(tiny_gpt2(merging()), merging(), batch_size=2)
    assert target.rows(8) == 2 * 64 // 8
    assert target.rows(1000) == 1


def test_a_text_as_long_as_the_context_is_read():
    model = tiny_gpt2(letters())
    text = "ab" * 32
    assert CausalTarget(model, letters()).log_perplexity([text])[0] == pytest.approx(
        sum(direct_costs(model, letters(), [text[:-1]])) + last_cost(model, text), abs=1e-3
    )


def last_cost(model, text):
    """Cost of the last character after all others, when BOS and the last one do not fit in together."""
    ids = torch.tensor([[letters().bos_token_id, *letters()(text, add_special_tokens=False)["input_ids"]]])
    with torch.no_grad():
        return -float(model(ids[:, :-1]).logits[0, -1].double().log_softmax(-1)[ids[0, -1]]) / np.log(2)


def test_a_text_longer_than_the_model_reads_is_refused():
    target = CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(TargetError, match="does not fit the model's maximum of 64"):
        target.log_perplexity(["a" * 70])


def test_half_precision_is_close_and_computed_in_float32():
    model = tiny_gpt2(letters(), seed=3)
    exact = CausalTarget(model, letters()).log_perplexity(TEXTS)
    half = CausalTarget(tiny_gpt2.__wrapped__(letters(), seed=3).to(torch.bfloat16), letters()).log_perplexity(TEXTS)
    assert half == pytest.approx(exact, rel=0.03)
    assert not np.array_equal(half, exact)


def test_costs_normalised_a_few_rows_at_a_time_are_the_same(monkeypatch):
    target = CausalTarget(tiny_gpt2(letters()), letters())
    columns = np.arange(len(letters()))
    root, _, _ = target.start(target.encode(["the pin is "])[0], columns)
    tokens = np.array(target.encode(["0123456"])[0])
    zero = np.zeros(len(tokens), dtype=np.int64)
    whole = target.extend(root[zero], tokens, columns)[1]
    monkeypatch.setattr(reader, "IN_CACHE", 3 * len(letters()))
    assert np.allclose(target.extend(root[zero], tokens, columns)[1], whole, atol=1e-5)
    assert np.allclose(np.exp2(-whole).sum(axis=1), 1, atol=1e-5)


def test_a_pass_on_a_cpu_has_2048_rows_at_most_whatever_the_batch_size():
    target = CausalTarget(tiny_gpt2(merging()), merging(), batch_size=1000)
    assert target.rows(2) == 2048
