"""A context that texts share, stored once, against plain `transformers` and plain attention over whole texts."""

from __future__ import annotations

import copy
import gc
import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from leakage_tasks.core.log import log
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.beginnings import CONTEXT
from leakage_tasks.targets.causal.engine import CONTEXTS, Engine
from leakage_tasks.targets.causal.key_values import NOTHING, KeyValueBatch, Reading
from leakage_tasks.targets.causal.requests import Start, Step, Texts, extend_all, score_all, start_all
from leakage_tasks.targets.causal.shared_context import (
    NAME,
    NotPlainAttention,
    Scores,
    SharedContext,
    SharedContextBatch,
    attending,
)
from leakage_tasks.targets.causal.text_rows import TextRows
from tests.oracles import letters
from tests.targets.causal.models import COLUMNS, SHARING, V, bits_after, model_of, next_costs, target_of

ONE = "the very long pin of anna who is old and has told no one of it so far is "
TWO = "what bob has written down on the back of a chart in the old hall was only "
assert min(len(ONE), len(TWO)) > CONTEXT


def texts_of(target: Any, beginning: str, number: int = 10, seed: int = 0) -> list[list[int]]:
    """Texts of several lengths with one beginning."""
    random = np.random.default_rng(seed)
    ends = ["".join(random.choice(list("abcdefgh "), length)) for length in random.integers(1, 8, number)]
    return list(target.token_rows([beginning + end for end in ends]))


def begun(target: Any, rows: list[list[int]]) -> list[TextRows]:
    return [text for text, _, _ in start_all([Start(target, row, COLUMNS) for row in rows])]


def stepped(target: Any, texts: list[TextRows], rows: list[list[int]]) -> list[tuple[TextRows, Any, list[list[int]]]]:
    """Continue each text by some tokens, in one request each; return texts, costs and the tokens of the texts."""
    random, steps, whole = np.random.default_rng(1), [], []
    for index, text in enumerate(texts):
        tokens = random.integers(5, V, 1 + index % 3)
        steps.append(Step.of_one(target, text[np.zeros(len(tokens), dtype=np.int64)], tokens, COLUMNS))
        whole.append([[*rows[index], int(token)] for token in tokens])
    return [(read, costs[:, 0], own) for (read, costs), own in zip(extend_all(steps), whole, strict=True)]


def compare(model: Any, found: list[tuple[TextRows, Any, list[list[int]]]]) -> None:
    """Compare the results of :func:`stepped` with plain passes."""
    for _, costs, own in found:
        assert np.abs(costs - next_costs(model, own)).max() < 1e-4


def check(name: str, target: Any, beginning: str = ONE) -> None:
    """Read texts with a common beginning, and more tokens after each, and compare with plain passes."""
    rows = texts_of(target, beginning)
    compare(name, stepped(target, begun(target, rows), rows))


# -- against the model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHARING)
def test_texts_of_several_contexts_and_of_none_share_a_step(name: str) -> None:
    target = target_of(name)
    groups = [texts_of(target, ONE), texts_of(target, TWO, seed=1), target.token_rows(["a text of its own", "b"])]
    rows = [row for group in groups for row in group]
    texts = [text for group in groups for text in begun(target, group)]
    assert len(target.engine._contexts) == 2
    mixed = np.random.default_rng(2).permutation(len(rows))
    rows, texts = [rows[n] for n in mixed], [texts[n] for n in mixed]
    for _ in range(2):
        found = stepped(target, texts, rows)
        compare(name, found)
        texts, rows = [read[[0]] for read, _, _ in found], [own[0] for _, _, own in found]
    assert target.engine.shares
    assert target.engine.cached


def test_a_context_is_stored_after_a_soft_prompt() -> None:
    from peft import PromptTuningConfig, TaskType, get_peft_model

    torch.manual_seed(0)
    base = model_of("llama")
    tuned = get_peft_model(base, PromptTuningConfig(TaskType.CAUSAL_LM, num_virtual_tokens=4)).eval()
    target = CausalTarget(tuned, letters(), device="cpu")
    rows = texts_of(target, ONE)
    found = stepped(target, begun(target, rows), rows)
    compare(tuned, found)
    (context,) = target.engine._contexts.values()
    assert context.length == 4 + len(context.tokens)
    assert target.engine.shares


def test_a_step_is_one_pass_for_each_context() -> None:
    target = target_of("llama")
    groups = [texts_of(target, ONE), texts_of(target, TWO, seed=1), target.token_rows(["a text of its own", "b"])]
    rows = [row for group in groups for row in group]
    texts = [text for group in groups for text in begun(target, group)]
    stepped(target, texts, rows)
    with metered([target.model]) as count:
        stepped(target, texts, rows)
    assert count.passes == 3


def test_a_context_is_stored_once_and_never_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    target, copied, init = target_of("llama"), [], KeyValueBatch.__init__

    def noted(own: KeyValueBatch, table: Any, reading: Reading) -> None:
        copied.append(reading.past.shape[1])
        init(own, table, reading)

    monkeypatch.setattr(KeyValueBatch, "__init__", noted)
    rows = texts_of(target, ONE)
    texts = begun(target, rows)
    stepped(target, texts, rows)
    own = max(map(len, rows)) - len(ONE)
    assert max(copied) <= own
    engine = target.engine
    # The tokens of the context, and those of each text after it.
    assert engine.tree.used <= 1 + max(map(len, rows)) + sum(len(row) - len(ONE) for row in rows)
    (context,) = engine._contexts.values()
    assert sum(tensor.nbytes for tensor in context.tensors) == context.length * engine.row_bytes
    # Texts with a known context read their own tokens alone.
    with metered([target.model]) as count:
        again = begun(target, rows)
    assert count.tokens <= len(rows) * (own + 1)
    assert len(again) == len(rows)


def test_texts_of_a_known_context_are_scored_after_it() -> None:
    target = target_of("gpt2")
    rows = texts_of(target, ONE)
    first = score_all([Texts(target, rows)])[0]
    with metered([target.model]) as count:
        again = score_all([Texts(target, rows[::-1])])[0][::-1]
    expected = [bits_after("gpt2", row)[0] for row in rows]
    assert first == pytest.approx(expected, abs=1e-3)
    assert again == pytest.approx(expected, abs=1e-3)
    # The tokens after the context, and those of the context that is read again.
    assert count.tokens < 2 * max(map(len, rows)) + len(rows) * 8


def test_the_context_used_longest_ago_gives_way_and_its_texts_go_on() -> None:
    target = target_of("gpt2")
    kept, rows = [], []
    for number in range(CONTEXTS + 2):
        group = texts_of(target, f"{'abcdefgh'[number]} {ONE}", seed=number)
        kept.append(begun(target, group)[0])
        rows.append(group[0])
    assert len(target.engine._contexts) == CONTEXTS
    compare("gpt2", stepped(target, kept, rows))
    target.engine._contexts.clear()
    del kept
    gc.collect()
    assert target.engine.tree.used == 1


def test_a_short_beginning_is_no_context() -> None:
    target = target_of("gpt2")
    rows = texts_of(target, ONE[: CONTEXT - 2], number=60)
    texts = begun(target, rows)
    assert not target.engine._contexts
    compare("gpt2", stepped(target, texts, rows))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_model_attends_as_before_afterwards(name: str) -> None:
    before = model_of(name).config._attn_implementation
    check(name, target_of(name))
    assert model_of(name).config._attn_implementation == before


# -- passes that are wrong --------------------------------------------------------------------------------------


def _no_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedContextBatch, "attend", lambda own, query, *rest: query.transpose(1, 2) * 0.0)


def _error(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*given: Any) -> Any:
        raise RuntimeError("an attention of its own")

    monkeypatch.setattr(SharedContextBatch, "attend", raises)


def _positions(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Reading.positions.fget
    shifted = property(lambda own: right(own) + 2 * (own.before > 0))  # type: ignore[misc]
    monkeypatch.setattr(Reading, "positions", shifted)


def _padding(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SharedContextBatch._own_mask
    monkeypatch.setattr(SharedContextBatch, "_own_mask", lambda own: np.ones_like(right(own)))


@pytest.mark.parametrize("wrong", [_no_attention, _error, _positions, _padding])
def test_a_wrong_pass_after_a_context_is_found(
    wrong: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger=log.name)
    wrong(monkeypatch)
    target = target_of("llama")
    check("llama", target)
    assert (target.engine.shares, target.engine.mixes, target.engine.cached) == (False, True, True)
    (context,) = target.engine._contexts.values()
    assert not context.tensors
    (said,) = [message for message in caplog.messages if "times as long" in message]
    assert said == (
        f"LlamaForCausalLM: every row needs its own copy of its context, so these passes take up to "
        f"{1 + len(context.tokens)} times as long; the results are unaffected. Lower budget=… if the run takes too long"
    )
    assert "a pass is off by" in caplog.text or "cannot be made: " in caplog.text


@pytest.mark.parametrize("name", ["mistral", "gpt_oss"])
def test_a_window_that_the_configuration_does_not_state_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakage_tasks.targets.causal.reader.windows_of", lambda config: (5, 5))
    target = target_of(name)
    check(name, target)
    assert not target.engine.shares


def test_texts_longer_than_a_window_are_compared_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake that shows only beyond the window, after texts within it."""
    target, right = target_of("mistral 90"), SharedContextBatch._context_mask
    monkeypatch.setattr(SharedContextBatch, "_context_mask", lambda own: np.ones_like(right(own)))
    for beginning, shares in ((ONE[:70], True), (ONE + TWO[:40], False)):
        check("mistral 90", target, beginning)
        assert target.engine.shares is shares
        assert all(bool(context.tensors) is shares for context in target.engine._contexts.values())


def test_a_pass_beyond_each_window_is_a_kind_of_its_own() -> None:
    engine = Engine(target_of("mistral 90"))
    engine._turns = (9, 60)
    rows, _ = engine.tree.add_texts(np.full(1, NOTHING), np.full((1, 70), 5), np.array([70]))
    beyond = [engine._kind(rows[:, length - 2], np.array([[5]])).beyond for length in (9, 10, 60, 61)]
    assert beyond == [0, 1, 1, 2]


def test_arguments_that_torchs_attention_ignores_are_not_supported() -> None:
    """Some versions of transformers compute Gemma 2 with it, although it does not limit the scores."""
    model, query = copy.deepcopy(model_of("gemma2")), torch.zeros(3, 4, 1, 8)
    model.config._attn_implementation_internal = "sdpa"
    with attending(model, SimpleNamespace(width=1, window=None)), pytest.raises(NotPlainAttention, match="softcap"):
        ALL_ATTENTION_FUNCTIONS[NAME](None, query, query, query, None, softcap=50.0)


# -- against plain attention ------------------------------------------------------------------------------------

HEADS, GROUP, WIDTH = 2, 3, 4


@st.composite
def readings(draw: st.DrawFn) -> tuple[int, list[int], int, int | None, float | None, bool]:
    """Length of the context, own tokens of each text, new tokens, window, softcap and sinks."""
    own = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    window = draw(st.one_of(st.none(), st.integers(1, 14)))
    return (
        draw(st.integers(1, 6)),
        own,
        draw(st.integers(1, 3)),
        window,
        draw(st.sampled_from([None, 2.0])),
        draw(st.booleans()),
    )


@given(readings())
def test_attention_equals_that_over_whole_texts(case: tuple[int, list[int], int, int | None, Any, bool]) -> None:
    length, own, width, window, softcap, with_sinks = case
    random, rows, longest = torch.Generator().manual_seed(0), len(own), max(own)

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random)

    past = np.array([[NOTHING] * (longest - n) + [7] * n for n in own], dtype=np.int64).reshape(rows, longest)
    reading = Reading(past, None, np.ones((rows, width), dtype=bool), length)
    context = [made(1, HEADS, length, WIDTH), made(1, HEADS, length, WIDTH)]
    keys, values = made(rows, HEADS, longest + width, WIDTH), made(rows, HEADS, longest + width, WIDTH)
    query, sinks = made(rows, HEADS * GROUP, width, WIDTH), made(HEADS * GROUP) if with_sinks else None
    shared: Any = SharedContext((5,) * length, None, context)
    batch = SharedContextBatch(SimpleNamespace(layers=[]), reading, shared, (window,))  # type: ignore[arg-type]
    found = batch.attend(query, keys, values, Scores(0.3, softcap), sinks)
    for row, count in enumerate(own):
        whole = [
            torch.cat([c[0], o[row, :, longest - count :]], dim=1) for c, o in zip(context, (keys, values), strict=True)
        ]
        for asked in range(width):
            at = length + count + asked
            visible = [place for place in range(at + 1) if window is None or place > at - window]
            for head in range(HEADS * GROUP):
                scores = whole[0][head // GROUP, visible] @ query[row, head, asked] * 0.3
                scores = scores if softcap is None else (scores / softcap).tanh() * softcap
                extra = scores.new_zeros(0) if sinks is None else sinks[head : head + 1]
                weights = torch.cat([scores, extra]).softmax(0)[: len(visible)]
                expected = weights @ whole[1][head // GROUP, visible]
                assert torch.allclose(found[row, asked, head], expected, atol=1e-5)


def test_16_bits_are_normalised_without_a_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(0)
    query, keys, values, *context = (
        torch.randn(*shape, generator=random).bfloat16()
        for shape in ((5, HEADS, 1, WIDTH), *[(5, HEADS, 3, WIDTH)] * 2, *[(1, HEADS, 100, WIDTH)] * 2)
    )
    reading = Reading(np.full((5, 2), 7), None, np.ones((5, 1), dtype=bool), 100)
    shared: Any = SharedContext((5,) * 100, None, list(context))
    batch = SharedContextBatch(SimpleNamespace(layers=[]), reading, shared, ())  # type: ignore[arg-type]
    exact = torch.nn.functional.scaled_dot_product_attention(
        query.float(),
        *(torch.cat([c.expand(5, -1, -1, -1), o], dim=2).float() for c, o in zip(context, (keys, values), strict=True)),
    )
    monkeypatch.setattr(torch.Tensor, "float", None)
    found = batch.attend(query, keys, values, Scores(WIDTH**-0.5))
    monkeypatch.undo()
    assert torch.allclose(found.transpose(1, 2).float(), exact, atol=0.02)
