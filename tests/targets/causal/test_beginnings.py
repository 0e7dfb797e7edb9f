"""Texts that begin alike, read after what they share: each against plain `transformers` on the whole of it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries import parse_template
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.asked import Start, Step, Texts
from leakage_tasks.targets.causal.beginnings import SAVED, SHARE, shared_tokens, worth_sharing
from leakage_tasks.targets.causal.passes import Passes
from leakage_tasks.targets.causal.questions import extend_all, score_all, start_all
from leakage_tasks.targets.causal.shared_blocks import BatchLayout
from tests.oracles import letters
from tests.targets.causal.test_passes import MODELS, SHARING, V, model_of

BEGINNING = "the very long pin of anna who is old is "
OTHER = "what bob has not told anyone so far is "


def target_of(name: str, **settings: Any) -> CausalTarget:
    return CausalTarget(model_of(name), letters(), **settings)


def texts_of(beginning: str, seed: int, least: int = 1, texts: int = 30) -> list[str]:
    """Texts that go on in several ways, by 1 to 9 letters."""
    random = np.random.default_rng(seed)
    return [
        beginning + "".join(random.choice(list("abcdefgh "), length)) for length in random.integers(least, 10, texts)
    ]


def costs_of(target: CausalTarget, rows: list[list[int]], asks: str) -> FloatArray:
    """What texts cost when they are asked about together, as whole texts or as prefixes."""
    if asks == "texts":
        return score_all([Texts(target, rows)])[0]
    return np.array([cost for _, cost, _ in start_all([Start(target, row, np.arange(V)) for row in rows])])


def bits_after(model: Any, row: list[int], first: int = 1) -> tuple[float, FloatArray]:
    """Bits of a text but for its first tokens, and of each token that may follow, by a plain pass over it alone.

    ``model`` may be one of :data:`MODELS` by name.
    """
    said = _said_by(model, tuple(row))
    own = said[:-1].gather(-1, torch.tensor(row[1:])[:, None])[first - 1 :]
    return float(own.sum()), said[-1].numpy()


@lru_cache(maxsize=10_000)
def _said_by(model: Any, row: tuple[int, ...]) -> torch.Tensor:
    """Bits of each token at each place of a text; the same texts are asked for in many ways."""
    plain = model_of(model) if isinstance(model, str) else model
    with torch.no_grad():
        return plain(input_ids=torch.tensor([row])).logits[0].double().log_softmax(-1) / -math.log(2)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "beginnings", [(BEGINNING,), (BEGINNING, OTHER), (BEGINNING, BEGINNING + "now "), (OTHER, "a")]
)
def test_texts_cost_what_they_cost_alone(name: str, beginnings: tuple[str, ...]) -> None:
    target = target_of(name)
    asked = [Texts(target, target.token_rows(texts_of(text, seed))) for seed, text in enumerate(beginnings)]
    for _ in ("proven", "known"):
        for each, costs in zip(asked, score_all(asked), strict=True):
            assert costs == pytest.approx([bits_after(name, row)[0] for row in each.rows], abs=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_prefixes_cost_what_they_cost_alone_and_are_gone_on_from(name: str) -> None:
    target, zero = target_of(name), np.zeros(1, dtype=np.int64)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    for _ in ("proven", "known"):
        found = start_all([Start(target, row, np.arange(V)) for row in rows])
        steps = [Step(target, [state], zero, zero, np.array([7]), np.arange(V)) for state, _, _ in found]
        for row, (_, cost, after), (_, later) in zip(rows, found, extend_all(steps), strict=True):
            plain, following = bits_after(name, row)
            assert cost == pytest.approx(plain, abs=1e-3)
            assert np.abs(after[0] - following).max() < 1e-4
            assert np.abs(later[0] - bits_after(name, [*row, 7])[1]).max() < 1e-4


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asks", ["texts", "prefixes"])
def test_what_texts_share_is_read_once(name: str, asks: str) -> None:
    target = target_of(name)
    rows = target.token_rows(texts_of(BEGINNING, 0))

    def read() -> None:
        if asks == "texts":
            score_all([Texts(target, rows[:10]), Texts(target, rows[10:])])
        else:
            start_all([Start(target, row, np.arange(V)) for row in rows])

    read()  # what is found out once
    with metered([model_of(name)]) as count:
        read()
    if name in SHARING:
        # What is padded is no more than a tenth of whole texts.
        assert count.tokens <= 1.1 * sum(map(len, rows)) - len(BEGINNING) * (len(rows) - 2)
    else:
        assert count.tokens >= sum(map(len, rows)) - len(rows)


def test_texts_of_several_beginnings_are_read_after_their_own() -> None:
    target = target_of("gpt2")
    asked = [Texts(target, target.token_rows(texts_of(text, 0))) for text in (BEGINNING, OTHER)]
    score_all(asked)
    with metered([model_of("gpt2")]) as count:
        score_all(asked)
    assert count.tokens < sum(len(row) for each in asked for row in each.rows) / 3


def led_and_not(target: CausalTarget) -> list[tuple[list[int], Any]]:
    """Texts and their states: some after one lead, some after another, and one that was read alone."""
    found = []
    for texts in (texts_of(BEGINNING, 0, texts=20)[:6], texts_of(OTHER, 1, texts=40), ["a text of its own"]):
        # Few texts more than are gone on from make what they share worth reading once.
        rows = target.token_rows([*texts, *texts_of(texts[0][: len(BEGINNING)], 2)] if len(texts) > 1 else texts)
        states = start_all([Start(target, row, np.arange(V)) for row in rows])
        found += [(row, state) for row, (state, _, _) in list(zip(rows, states, strict=True))[: len(texts)]]
    return found


@pytest.mark.parametrize("name", SHARING)
@pytest.mark.parametrize("way", ["copied", "not copied", "_padded", "_each"])
def test_states_of_several_leads_and_none_meet_in_a_step(name: str, way: str) -> None:
    target, random = target_of(name), np.random.default_rng(0)
    passes = target.passes
    texts = led_and_not(target)
    leads = {id(state.lead) for _, state in texts}
    assert len(leads) == 3
    passes._copied = lambda: math.inf if way == "copied" else 0.0
    steps = []
    for place, (_, state) in enumerate(texts):
        tokens, zero = random.integers(5, V, (1, 12, 2)[place % 3]), np.zeros((1, 12, 2)[place % 3], dtype=np.int64)
        steps.append(Step(target, [state], zero, zero, tokens, np.arange(V)))
    if way.startswith("_"):
        passes._ways = {several: [getattr(passes, way)] for several in (False, True)}
    once = extend_all(steps)
    again = [
        Step(target, [state], step.which, np.arange(len(step.tokens)), step.tokens, np.arange(V))
        for step, (state, _) in zip(steps, once, strict=True)
    ]
    for (row, _), step, (_, costs) in zip(texts, steps, extend_all(again), strict=True):
        plain = [bits_after(name, [*row, int(token), int(token)])[1] for token in step.tokens]
        assert np.abs(costs - np.stack(plain)).max() < 1e-4


def test_canaries_in_a_context_keep_what_is_their_own() -> None:
    target = target_of("llama")
    rows = target.token_rows(texts_of(BEGINNING, 0))
    states = [state for state, _, _ in start_all([Start(target, row, np.arange(V)) for row in rows])]
    assert len({id(state.lead) for state in states}) == 1
    assert [state.prefix[0].shape[-2] for state in states] == [len(row) - len(BEGINNING) - 1 for row in rows]
    again = start_all([Start(target, row, np.arange(V)) for row in rows[:2]])
    assert again[0][0].lead is states[0].lead


def test_in_a_context_no_cost_is_counted_before_the_text() -> None:
    target, context = target_of("llama"), Context(before="anna has told bob about it. ")
    space = parse_template("the pin is {digits:3}")
    inside = target.in_context(context, space)
    texts = [space.fill(filling) for filling in space.enumerate()]
    found = inside.log_perplexity(texts)
    rows = [target.token_rows([context.before + text])[0] for text in texts]
    first = len(rows[0]) - target.length(texts[0])
    assert found == pytest.approx([bits_after("llama", row, first)[0] for row in rows], abs=1e-3)


@pytest.mark.parametrize("wrong", ["other numbers", "an error"])
@pytest.mark.parametrize("asks", ["texts", "prefixes"])
def test_what_is_found_wrong_is_not_done_again(wrong: str, asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, right, calls = target_of("gpt2"), Passes.read_shared, []

    def off(self: Passes, states: Any, fed: Any) -> Any:
        calls.append(len(fed))
        if wrong == "an error":
            raise ValueError("no such mask")
        (logits,), grown = right(self, states, fed)
        return [logits + torch.arange(V)], grown

    monkeypatch.setattr(Passes, "read_shared", off)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    for _ in range(2):
        found = costs_of(target, rows, asks)
        assert found == pytest.approx([bits_after("gpt2", row)[0] for row in rows], abs=1e-3)
        assert target.passes.continues.works is False
        calls.append(0)
    assert calls[-2:] == [0, 0]


@pytest.mark.parametrize("asks", ["texts", "prefixes"])
def test_texts_longer_than_a_window_are_proven_once_more(asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake that shows beyond the window alone, after texts within it."""
    target, right = target_of("mistral 60"), BatchLayout.sight
    monkeypatch.setattr(BatchLayout, "sight", lambda own, blocks, lead, window: right(own, blocks, lead, None))
    for beginning, continues in ((BEGINNING, True), (BEGINNING + OTHER, False)):
        rows = target.token_rows(texts_of(beginning, 0))
        found = costs_of(target, rows, asks)
        assert found == pytest.approx([bits_after("mistral 60", row)[0] for row in rows], abs=1e-3)
        assert target.passes.continues.works is continues


@pytest.mark.parametrize("asks", ["texts", "prefixes"])
def test_where_memory_runs_out_fewer_are_read_at_once(asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, right = target_of("gpt2"), Passes.read_shared

    def short(self: Passes, states: Any, fed: Any) -> Any:
        if len(fed[0]) > 7:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return right(self, states, fed)

    monkeypatch.setattr(Passes, "read_shared", short)
    rows = target.token_rows(texts_of(BEGINNING, 0, texts=60))
    found = costs_of(target, rows, asks)
    assert found == pytest.approx([bits_after("gpt2", row)[0] for row in rows], abs=1e-3)


def test_without_a_cache_every_text_is_read_from_its_first_token() -> None:
    target = target_of("gpt2", cached=False)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    with metered([model_of("gpt2")]) as count:
        (found,) = score_all([Texts(target, rows)])
    assert count.tokens >= sum(map(len, rows)) - len(rows)
    assert found == pytest.approx([bits_after("gpt2", row)[0] for row in rows], abs=1e-3)


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=400).map(lambda tail: [7] * 300 + tail), max_size=6))
def test_as_many_tokens_are_shared_as_all_begin_with_and_leave(rows: list[list[int]]) -> None:
    found = shared_tokens(rows)
    most = max(
        (n for n in range(min(map(len, rows), default=1)) if len({tuple(row[:n]) for row in rows}) == 1), default=0
    )
    tokens = sum(map(len, rows))
    assert found == (most if len(rows) > 1 and most * (len(rows) - 1) >= max(SAVED, SHARE * tokens) else 0)


def test_few_tokens_are_not_worth_a_pass() -> None:
    assert not worth_sharing(shared=SAVED - 1, texts=2, tokens=SAVED)
    assert worth_sharing(shared=SAVED, texts=2, tokens=2 * SAVED)
    assert not worth_sharing(shared=SAVED, texts=2, tokens=2 * SAVED + 1)
