"""The memory that a run is allowed: who keeps to it, and that no figure depends on it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.sizes import read_size
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.memory import COPIES, LOGIT_BYTES, SHARE, MemoryBudget, memory_within
from leakage_tasks.targets.scheduler import run_concurrently
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes
from tests.oracles import letters, tiny_gpt2

CPU = torch.device("cpu")
LAYERS, WIDTH = 2, 32
TOKEN = 2 * LAYERS * WIDTH * 4
"""Bytes of the keys and values of a token of ``tiny_gpt2``, in float32."""
PINS = [Canary(f"c{place}", "the pin is {digits:3}.", tuple(secret)) for place, secret in enumerate(("123", "987"))]
SHORT = [Canary("c", "the pin is {digits:2}.", ("1", "2"))]


def allowing(size: int, share: float) -> int:
    """The memory of which so many bytes are this share, and a few bytes more."""
    return math.ceil(size / share) + 9


@pytest.mark.parametrize(
    ("words", "size"),
    [("2GB", 2 * 10**9), ("500 MB", 5 * 10**8), ("1.5gb", 15 * 10**8), ("64kB", 64_000), (4096, 4096), ("7", 7)],
)
def test_a_size_in_words_or_bytes(words, size):
    assert read_size(words) == size


@pytest.mark.parametrize("words", ["", "GB", "-1GB", "2 apples", "0", "1e9", "nan", "2GBGB", "9" * 400, True, None])
def test_what_is_no_size_is_refused(words):
    with pytest.raises(OptionError, match="expected a size such as 2GB or 500MB"):
        read_size(words)


def test_what_is_allowed_holds_inside_and_no_longer():
    states = MemoryBudget()
    usual = states.most
    with memory_within(1500):
        assert (states.most, states.rows) == (450, 337)
    assert states.most == usual


def test_the_threads_of_attacks_keep_to_it_too():
    with memory_within(1500):
        (found,) = run_concurrently([lambda: MemoryBudget().rows])
    assert found.result == 337


def test_unless_given_it_is_a_share_of_what_is_free_for_all_processes(monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Free", (), {"available": 10**9}))
    alone = MemoryBudget().most
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert (alone, MemoryBudget().most) == (120_000_000, 30_000_000)


@pytest.mark.parametrize("attack", ["exposure", "shortest-path", "beam"])
def test_states_stay_within_it_and_figures_are_the_same(attack, monkeypatch):
    values = {"stopping": "proven"} if attack == "shortest-path" else {}
    plenty = run_attack(attack, CausalTarget(tiny_gpt2(letters()), letters()), PINS, values=values)
    target, most = CausalTarget(tiny_gpt2(letters()), letters()), []
    hold = MemoryBudget.hold

    def watched(self, holder, size, needed=None):
        hold(self, holder, size, needed)
        # One batch may be held, whatever it takes: it is gone on from next.
        most.append(self.held <= self.most or len(self._holders) == 1)

    monkeypatch.setattr(MemoryBudget, "hold", watched)
    with memory_within(100_000):
        scarce = run_attack(attack, target, PINS, values=values)
    assert most
    assert all(most)
    assert target.states.read_again or attack != "shortest-path"
    for one, other in zip(plenty, scarce, strict=True):
        assert one.rank == pytest.approx(other.rank)
        assert [guess.filling for guess in one.guesses] == [guess.filling for guess in other.guesses]
        assert (one.model_calls, one.proven) == (other.model_calls, other.proven)


def test_a_pass_holds_no_more_rows_than_it_allows(monkeypatch):
    target, rows = CausalTarget(tiny_gpt2(letters()), letters()), []
    go_on = target.engine.go_on
    monkeypatch.setattr(target.engine, "go_on", lambda texts, *rest: rows.append(len(texts)) or go_on(texts, *rest))
    row = LOGIT_BYTES * target.model.config.vocab_size
    with memory_within(allowing(40 * row, SHARE * (1 - COPIES))):
        run_attack("exposure", target, SHORT)
    assert max(rows) <= 40


@pytest.mark.parametrize("context", [Context(), Context(before="so it is said that ")], ids=["plain", "in a context"])
def test_a_row_counts_what_its_state_holds_whatever_was_read_since(context):
    target = CausalTarget(tiny_gpt2(letters()), letters()).in_context(context, SHORT[0].space)
    columns = np.arange(4, 20)
    long = target.start(target.encode(["the pin is the pin is "])[0], columns)[0]
    target.start(target.encode(["the"])[0], columns)
    grown, _ = target.extend(long[np.zeros(3, dtype=np.int64)], columns[:3], columns)
    logits, length = LOGIT_BYTES * target.model.config.vocab_size, len(target.engine.tree.read_tokens(long.numbers[0]))

    def row(before: int) -> int:
        # The keys and values of the new token; those of one layer are copied for the tokens before, once by the pass
        # and once by attention. Besides four numbers for each weight of a layer's attention, and of each of its MLP.
        return logits + TOKEN + before * 2 * TOKEN // LAYERS + 16 * (2 * (before + 1) + 4 * 32)

    with memory_within(allowing(40 * row(length), SHARE * (1 - COPIES))):
        assert target.step_rows(long) == 40
        # One token more to copy.
        assert target.step_rows(grown) == 40 * row(length) // row(length + 1)


def test_a_text_counts_what_a_layer_computes_of_each_token_that_a_pass_reads():
    target = CausalTarget(tiny_gpt2(letters()), letters())
    target.start(target.encode(["the pin is "])[0], np.arange(4, 20))
    logits = LOGIT_BYTES * target.model.config.vocab_size

    def text(own: int) -> int:
        # As of a row, for each of its own tokens.
        return logits + own * (TOKEN + 16 * (2 * 60 + 4 * 32)) + (60 - own) * 2 * TOKEN // LAYERS

    with memory_within(allowing(40 * text(1), SHARE * (1 - COPIES))):
        assert [target.text_rows(60, own) for own in (1, 2, 5)] == [
            40,
            40 * text(1) // text(2),
            40 * text(1) // text(5),
        ]


def whole_texts() -> list[float]:
    """Ten texts of 20 tokens, the first among them."""
    target = CausalTarget(tiny_gpt2(letters()), letters())
    return target.log_perplexity([f"the pin is {number:08}" for number in range(10)]).tolist()


def whole_suffixes() -> list[float]:
    """Ten suffixes of 20 tokens."""
    target = CausalSuffixes(CausalTarget(tiny_gpt2(letters()), letters()))
    rows = [[number % 7 + place % 5 for place in range(20)] for number in range(10)]
    return [float(each.own.sum()) for each in target.score([[5, 6]] * 10, rows, DecodingConfig())]


@pytest.mark.parametrize("scored", [whole_texts, whole_suffixes])
def test_texts_with_logits_at_every_token_stay_within_it(scored):
    plain, rows = scored(), []
    logits = LOGIT_BYTES * len(letters()) * 20
    hook = tiny_gpt2(letters()).lm_head.register_forward_hook(lambda module, given, out: rows.append(len(out)))
    try:
        with memory_within(allowing(3 * logits, SHARE)):
            assert scored() == pytest.approx(plain)
    finally:
        hook.remove()
    assert max(rows) == 3


def test_too_little_for_one_row_is_one_line_that_says_what_is_enough():
    target = CausalTarget(tiny_gpt2(letters()), letters())
    with (
        memory_within(100),
        pytest.raises(OptionError, match=r"memory=100 B is too little for one row of this model: set") as said,
    ):
        run_attack("exposure", target, SHORT)
    with memory_within(read_size(re.search(r"set (.*) or more", str(said.value))[1])):
        run_attack("exposure", target, SHORT)
