"""Requests of several attacks that are answered together, each against plain `transformers`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal import first_passes
from leakage_tasks.targets.causal.engine import Engine
from leakage_tasks.targets.causal.requests import Start, Step, extend_all, start_all
from leakage_tasks.targets.memory import LOGIT_BYTES, SHARE, memory_within
from leakage_tasks.targets.pass_rows import MOST_ROWS
from tests.oracles import letters
from tests.targets.causal.models import (
    ATTENTION,
    COLUMNS,
    MODELS,
    V,
    bits_after,
    limit_rows,
    model_of,
    next_costs,
    target_of,
)

PREFIXES = ("the pin of anna is ", "a", "the very long pin of bob who is old is ", "a b")


def begun(target: CausalTarget) -> tuple[list[list[int]], list[Any]]:
    """Return the tokens of each prefix, and the answers to requests for all of them together."""
    rows = target.token_rows(list(PREFIXES))
    return rows, start_all([Start(target, row, COLUMNS) for row in rows])


@pytest.mark.parametrize(("name", "cached"), [*((name, True) for name in MODELS), ("gpt2", False)])
def test_each_prefix_costs_what_it_costs_alone_and_is_continued(name: str, cached: bool) -> None:
    target = target_of(name, cached=cached)
    for _ in ("compared", "known"):
        rows, found = begun(target)
        steps = [Step.of_one(target, text, np.array([7]), COLUMNS) for text, _, _ in found]
        for row, (_, cost, after), (_, later) in zip(rows, found, extend_all(steps), strict=True):
            own, following = bits_after(name, row)
            assert cost == pytest.approx(own, abs=1e-3)
            assert np.abs(after[0] - following).max() < 1e-4
            assert np.abs(later[0, 0] - bits_after(name, [*row, 7])[1]).max() < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_prefixes_of_several_lengths_are_one_pass_if_the_state_is_attention(name: str) -> None:
    target = target_of(name)
    begun(target)
    with metered([model_of(name)]) as count:
        begun(target)
    assert count.passes == (1 if name in ATTENTION else len({len(text) for text in PREFIXES}))
    assert count.rows == len(PREFIXES)


def test_a_cpu_reads_little_padding() -> None:
    target = CausalTarget(model_of("gpt2"), letters(), device="cpu")
    begun(target)
    with metered([model_of("gpt2")]) as count:
        begun(target)
    assert count.tokens <= 1.1 * sum(1 + len(text) for text in PREFIXES)


def _looks_ahead(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    forward = model.forward

    def ahead(input_ids: torch.Tensor, **named: Any) -> Any:
        out = forward(input_ids=input_ids, **named)
        out.logits = out.logits + input_ids.shape[1] * torch.arange(V)
        return out

    monkeypatch.setattr(model, "forward", ahead)


def _raises(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    right = Engine._first_pass

    def first(own: Engine, texts: Any, sources: Any) -> Any:
        if len(set(map(len, texts))) > 1:
            raise RuntimeError("an attention of its own")
        return right(own, texts, sources)

    monkeypatch.setattr(Engine, "_first_pass", first)


@pytest.mark.parametrize("wrong", [_looks_ahead, _raises])
def test_a_model_that_cannot_pad_reads_each_length_alone(
    wrong: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    target = target_of("gpt2")
    wrong(monkeypatch, model_of("gpt2"))
    for _ in range(2):
        rows, found = begun(target)
        for row, (_, _, after) in zip(rows, found, strict=True):
            with torch.no_grad():
                said = model_of("gpt2")(input_ids=torch.tensor([row])).logits[0, -1].double().log_softmax(-1)
            assert np.abs(after[0] - said.numpy() / -math.log(2)).max() < 1e-4
    assert target.engine.pads is False
    (said,) = [message for message in caplog.messages if "times as long" in message]
    assert "texts of different lengths cannot share a forward pass, so these passes take up to 4" in said


def test_memory_that_runs_out_halves_the_texts_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of("gpt2")
    limit_rows(monkeypatch, Engine, "_first_pass", 2)
    rows, found = begun(target)
    assert [cost for _, cost, _ in found] == pytest.approx([bits_after("gpt2", row)[0] for row in rows], abs=1e-3)
    assert target.engine.pads
    # Passes of one token have more rows than fit with whole texts.
    assert (target.pass_rows.whole_texts.most, target.pass_rows.limit.most) == (2, MOST_ROWS)


def rows_of_first_passes(monkeypatch: pytest.MonkeyPatch, beginning: str) -> tuple[CausalTarget, list[int]]:
    """Begin nine texts in memory for the logits of two, of a large vocabulary; return the rows of each first pass."""
    target, right, rows = target_of("gpt2"), Engine._first_pass, []
    texts = target.token_rows([beginning + "abcdefghi"[n] * (83 - len(beginning)) for n in range(9)])
    target.pass_rows = replace(target.pass_rows, vocabulary=10_000)

    def recorded(own: Engine, texts: Any, sources: Any) -> Any:
        rows.append(len(texts))
        return right(own, texts, sources)

    monkeypatch.setattr(Engine, "_first_pass", recorded)
    with memory_within(math.ceil(2 * len(texts[0]) * LOGIT_BYTES * 10_000 / SHARE) + 9):
        found = start_all([Start(target, row, COLUMNS) for row in texts])
    assert [cost for _, cost, _ in found] == pytest.approx([bits_after("gpt2", row)[0] for row in texts], abs=1e-3)
    return target, rows


def test_a_first_pass_has_as_many_rows_as_memory_holds_logits_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_of_first_passes(monkeypatch, "")[1] == [2, 2, 2, 2, 1]


def test_texts_that_share_a_context_read_it_once_though_few_fit_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    target, rows = rows_of_first_passes(
        monkeypatch, "the very long pin of anna who is old and has told no one of it so far "
    )
    assert rows == [1]
    assert len(target.engine._contexts) == 1


CONTEXT = "the very long pin of anna who is old and has told no one of it so far and it is "


def begun_after_a_context(target: CausalTarget, more: tuple[str, ...] = ()) -> None:
    """Begin twelve texts that share a long context, and ``more`` texts."""
    texts = target.token_rows([*(CONTEXT + "abcdefghijkl"[n] for n in range(12)), *more])
    start_all([Start(target, row, COLUMNS) for row in texts])


def test_texts_share_a_context_also_beside_texts_without_it() -> None:
    target = CausalTarget(model_of("gpt2"), letters())
    begun_after_a_context(target, tuple(f"a {letter}" for letter in "abcdefghijkl"))
    assert len(target.engine._contexts) == 1


def test_a_pass_after_a_context_that_each_row_copies_has_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    target, copied, fitting = target_of("gpt2"), [], CausalTarget.text_rows
    target.engine.shares = False

    def recorded(own: CausalTarget, length: int, *more: int) -> int:
        copied.append(more[-1])
        return fitting(own, length, *more)

    monkeypatch.setattr(CausalTarget, "text_rows", recorded)
    begun_after_a_context(target)
    assert set(copied) == {len(target.token_rows([CONTEXT])[0])}


def test_the_costs_of_a_long_text_need_no_copy_of_its_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, right = [], torch.Tensor.log_softmax
    logits, tokens = torch.randn(2, 30, V), torch.randint(V, (2, 30))
    expected = torch.nn.functional.log_softmax(logits, -1).gather(-1, tokens[..., None])[..., 0] / -math.log(2)

    def recorded(logits: Any, dim: int) -> Any:
        sizes.append(logits.numel())
        return right(logits, dim)

    monkeypatch.setattr(torch.Tensor, "log_softmax", recorded)
    monkeypatch.setattr(first_passes, "IN_CACHE", 8 * V)
    assert np.allclose(first_passes.token_bits(logits, tokens), expected.numpy(), atol=1e-5)
    assert max(sizes) <= 8 * V


def test_each_request_gets_the_costs_of_its_own_tokens() -> None:
    target = target_of("gpt2")
    rows = target.token_rows(list(PREFIXES))
    columns = [np.array([5, 9, 30]), np.array([6]), np.arange(V), np.array([5, 9, 30])]
    found = start_all([Start(target, row, own) for row, own in zip(rows, columns, strict=True)])
    steps = [Step.of_one(target, text, np.array([7]), own) for (text, _, _), own in zip(found, columns, strict=True)]
    for row, own, (_, _, first), (_, second) in zip(rows, columns, found, extend_all(steps), strict=True):
        assert np.abs(first - next_costs("gpt2", [row])[:, own]).max() < 1e-4
        assert np.abs(second[:, 0] - next_costs("gpt2", [[*row, 7]])[:, own]).max() < 1e-4


def test_an_answer_keeps_no_costs_of_other_requests_in_memory():
    target = target_of("llama")
    begun = [target.start([1, 2, 3 + number], COLUMNS)[0] for number in range(2)]
    steps = [Step.of_one(target, texts, np.array([5]), COLUMNS) for texts in begun]
    for _, costs in extend_all(steps):
        assert costs.base is None
        assert costs.shape == (1, 1, len(COLUMNS))
