"""Texts that begin alike, read after what they share: each against plain `transformers` on the whole text."""

from __future__ import annotations

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
from leakage_tasks.targets.causal import beginnings
from leakage_tasks.targets.causal.beginnings import CONTEXT, SAVED, SHARE, shared_tokens, worth_sharing
from leakage_tasks.targets.causal.engine import Engine
from leakage_tasks.targets.causal.requests import Start, Texts, score_all, start_all
from tests.targets.causal.models import COLUMNS, MODELS, OTHERS, V, bits_after, limit_rows, model_of, target_of

BEGINNING = "the very long pin of anna who is old is "
OTHER = "what bob has not told anyone so far is "
CONTEXT_TEXT = BEGINNING + OTHER
assert len(BEGINNING) < CONTEXT < len(CONTEXT_TEXT)


def texts_of(beginning: str, seed: int, texts: int = 16) -> list[str]:
    """Texts that continue a beginning by 1 to 9 letters."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 10, texts)
    return [beginning + "".join(random.choice(list("abcdefgh "), length)) for length in lengths]


def costs_of(target: CausalTarget, rows: list[list[int]], asks: str) -> FloatArray:
    """Costs of texts that are asked about together, as whole texts or as prefixes."""
    if asks == "texts":
        return score_all([Texts(target, rows)])[0]
    return np.array([cost for _, cost, _ in start_all([Start(target, row, COLUMNS) for row in rows])])


def plain(name: str, rows: list[list[int]]) -> Any:
    return pytest.approx([bits_after(name, row)[0] for row in rows], abs=1e-3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "before",
    [(BEGINNING,), (CONTEXT_TEXT, CONTEXT_TEXT + "now "), pytest.param((OTHER, "a"), marks=pytest.mark.slow)],
)
def test_texts_cost_what_they_cost_alone(name: str, before: tuple[str, ...]) -> None:
    target = target_of(name)
    asked = [Texts(target, target.token_rows(texts_of(text, seed))) for seed, text in enumerate(before)]
    for _ in ("compared", "known"):
        for each, costs in zip(asked, score_all(asked), strict=True):
            assert costs == plain(name, list(each.rows))


@pytest.mark.parametrize("asks", ["texts", "prefixes"])
@pytest.mark.parametrize("name", ["gpt2", "gemma3", "latent", "bloom"])
def test_a_context_is_read_once(name: str, asks: str) -> None:
    target = target_of(name)
    rows = target.token_rows(texts_of(CONTEXT_TEXT, 0))
    assert costs_of(target, rows, asks) == plain(name, rows)
    with metered([model_of(name)]) as count:
        costs_of(target, rows, asks)
    # Padding may be up to the length of the longest text's own part.
    assert count.tokens <= len(rows[0]) + len(rows) * max(len(row) - len(CONTEXT_TEXT) for row in rows)


def test_texts_of_several_beginnings_are_read_after_their_own() -> None:
    target = target_of("gpt2")
    asked = [Texts(target, target.token_rows(texts_of(text, 0))) for text in (BEGINNING, OTHER)]
    score_all(asked)
    with metered([model_of("gpt2")]) as count:
        score_all(asked)
    assert count.tokens < sum(len(row) for each in asked for row in each.rows) / 2


def test_in_a_context_no_cost_is_counted_before_the_text() -> None:
    target, context = target_of("llama"), Context(before="anna has told bob about it. ")
    space = parse_template("the pin is {digits:2}")
    inside = target.in_context(context, space)
    texts = [space.fill(filling) for filling in space.enumerate()]
    found = inside.log_perplexity(texts)
    rows = [target.token_rows([context.before + text])[0] for text in texts]
    first = len(rows[0]) - target.length(texts[0])
    assert found == pytest.approx([bits_after("llama", row, first)[0] for row in rows], abs=1e-3)


# -- passes that are wrong, and memory ------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["other numbers", "an error"])
@pytest.mark.parametrize("asks", ["texts", "prefixes"])
def test_a_wrong_pass_over_several_tokens_is_given_up(wrong: str, asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, right, calls = target_of("gpt2"), Engine._attention_pass, []

    def off(own: Engine, table: Any, rows: Any, tokens: Any, *rest: Any) -> Any:
        logits, texts = right(own, table, rows, tokens, *rest)
        calls.append(tokens.shape[1])
        if tokens.shape[1] == 1:
            return logits, texts
        if wrong == "an error":
            raise ValueError("no such mask")
        return logits + torch.arange(V), texts

    monkeypatch.setattr(Engine, "_attention_pass", off)
    rows = target.token_rows(texts_of(CONTEXT_TEXT, 0))
    for _ in range(2):
        assert costs_of(target, rows, asks) == plain("gpt2", rows)
        assert not target.engine.reads_many
        calls.append(0)
    assert max(calls[calls.index(0) :]) <= 1


def test_without_a_cache_every_text_is_read_from_its_first_token() -> None:
    target = target_of("gpt2", cached=False)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    with metered([model_of("gpt2")]) as count:
        assert costs_of(target, rows, "texts") == plain("gpt2", rows)
    assert count.tokens >= sum(map(len, rows)) - len(rows)


# -- one token at a time ----------------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every additional pass pay off."""
    monkeypatch.setattr(beginnings, "PASS_ON_CPU", 0)


def by_tokens(name: str) -> CausalTarget:
    """A target that reads one token at a time after what texts share."""
    target = target_of(name)
    target.engine.reads_many = False
    return target


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("name", MODELS)
def test_texts_read_by_single_tokens_cost_the_same(name: str) -> None:
    target = by_tokens(name)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    for _ in ("compared", "known"):
        assert costs_of(target, rows, "texts") == plain(name, rows)
    with metered([model_of(name)]) as count:
        costs_of(target, rows, "texts")
    assert count.tokens < sum(map(len, rows)) / 2


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("name", ["lstm", "bloom"])
@pytest.mark.parametrize("at_once", [True, False])
def test_texts_with_one_token_of_their_own_cost_the_same(name: str, at_once: bool) -> None:
    target = target_of(name) if at_once else by_tokens(name)
    shared = target.token_rows([BEGINNING])[0]
    for own in ([[7], [8]] * 15, [[7, 8, 9, 10], [7, 7, 8, 8, 9]] * 15):
        rows = [[*shared, *each] for each in own]
        assert costs_of(target, rows, "texts") == plain(name, rows)


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("name", OTHERS)
def test_states_other_than_attention_are_continued_by_single_tokens(name: str) -> None:
    target = target_of(name)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    assert costs_of(target, rows, "texts") == plain(name, rows)
    assert not target.engine.reads_many
    assert target.engine.cached


@pytest.mark.usefixtures("steps")
def test_what_texts_have_in_common_is_read_once() -> None:
    target = by_tokens("lstm")
    rows = target.token_rows(texts_of(BEGINNING, 0))
    costs_of(target, rows, "texts")
    with metered([model_of("lstm")]) as count:
        costs_of(target, rows, "texts")
    shared = 1 + len(BEGINNING)
    # The last token of a text is not read.
    inner = {tuple(row[:length]) for row in rows for length in range(shared + 1, len(row))}
    assert count.tokens == shared + len(inner)
    assert count.passes == 1 + max(map(len, rows)) - shared - 1


@pytest.mark.usefixtures("steps")
def test_the_order_of_texts_and_their_number_in_a_pass_change_nothing() -> None:
    target, small = by_tokens("lstm"), by_tokens("lstm")
    small.pass_rows.tuned.rows = 3
    rows = target.token_rows(texts_of(BEGINNING, 0))
    assert costs_of(small, rows[::-1], "texts")[::-1] == pytest.approx(costs_of(target, rows, "texts"), abs=1e-5)


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize(("name", "asks"), [("gpt2", "texts"), ("gpt2", "prefixes"), ("lstm", "texts")])
def test_memory_that_runs_out_halves_the_texts_of_a_pass(name: str, asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(name) if name == "gpt2" else by_tokens(name)
    refused = limit_rows(monkeypatch, Engine, "_pass", 7)
    rows = target.token_rows(texts_of(CONTEXT_TEXT, 0, texts=60))
    assert costs_of(target, rows, asks) == plain(name, rows)
    assert refused
    assert (target.engine.reads_many, target.engine.shares, target.engine.cached) == (name == "gpt2", True, True)


def test_passes_that_save_little_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginnings, "PASS_ON_CPU", 10**6)
    target = by_tokens("lstm")
    rows = target.token_rows(texts_of(BEGINNING, 0))
    with metered([model_of("lstm")]) as count:
        costs_of(target, rows, "texts")
    assert count.tokens >= sum(map(len, rows)) - len(rows)


# -- what is worth it -------------------------------------------------------------------------------------------


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
