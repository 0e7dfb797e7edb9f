"""Texts continued in shared passes, each compared with plain `transformers` on the whole text."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Phi3Config

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.log import log
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.cache import filled, hollow, tensors_of
from leakage_tasks.targets.causal.engine import Engine, Kind
from leakage_tasks.targets.causal.first_passes import CHECKED
from leakage_tasks.targets.causal.key_values import KeyValueBatch, Reading
from leakage_tasks.targets.causal.requests import Step, extend_all
from leakage_tasks.targets.causal.text_rows import TextRows
from leakage_tasks.targets.causal.whole_states import WholeStates
from leakage_tasks.targets.pass_rows import MOST_ROWS, PassSize
from tests.oracles import letters
from tests.targets.causal.models import ATTENTION, COLUMNS, MODELS, OTHERS, V, model_of, next_costs, target_of

BEFORE = ("the pin of anna is ", "a", "the very long pin of bob who is old is ", "the pin of carl is ")
ROWS = (20, 3, 1, 9)
UNEVEN = (1, 4, 2, 3)
HALF = torch.bfloat16
Stepped = tuple[list[FloatArray], list[list[list[int]]], list[TextRows]]


@pytest.fixture(autouse=True, scope="module")
def frozen_objects() -> None:
    """Leave what other tests have loaded out of the searches for garbage."""
    gc.freeze()


def one_by_one(steps: Sequence[Step]) -> list[Any]:
    return [extend_all([step])[0] for step in steps]


def in_parts(steps: Sequence[Step]) -> list[Any]:
    """Answer the first two rows of all steps together, then the rest of each."""
    first, rest = ([step.part(rows) for step in steps] for rows in (slice(0, 2), slice(2, None)))
    left = [index for index, step in enumerate(rest) if len(step.tokens)]
    answers = [[answer] for answer in extend_all(first)]
    for index, answer in zip(left, one_by_one([rest[index] for index in left]), strict=True):
        answers[index].append(answer)
    return [step.join(parts) for step, parts in zip(steps, answers, strict=True)]


def stepped(target: CausalTarget, depths: Sequence[int], answered: Callable[..., Any] = extend_all) -> Stepped:
    """Return costs of next tokens after random texts, and the texts; prefix i becomes ``depths[i]`` tokens longer."""
    random = np.random.default_rng(0)
    prefixes = [target.encode([text])[0] for text in BEFORE]
    read = [target.start(prefix, COLUMNS)[0] for prefix in prefixes]
    texts = [[target.begun(prefix)] * count for prefix, count in zip(prefixes, ROWS, strict=True)]
    costs: list[Any] = [None] * len(BEFORE)
    for depth in range(max(depths)):
        steps, going = [], [index for index, most in enumerate(depths) if depth < most]
        for index in going:
            tokens = random.integers(5, V, ROWS[index])
            chosen = np.zeros(ROWS[index], dtype=np.int64) if depth == 0 else np.arange(ROWS[index])
            texts[index] = [[*text, int(token)] for text, token in zip(texts[index], tokens, strict=True)]
            steps.append(Step.of_one(target, read[index][chosen], tokens, COLUMNS))
        for index, (rows, found) in zip(going, answered(steps), strict=True):
            read[index], costs[index] = rows, found[:, 0]
    return costs, texts, read


def check(name: str, target: CausalTarget, depths: Sequence[int] = UNEVEN, answered: Any = extend_all) -> None:
    costs, texts, _ = stepped(target, depths, answered)
    for found, own in zip(costs, texts, strict=True):
        assert np.abs(found - next_costs(name, own)).max() < 1e-4


@pytest.mark.parametrize("answered", [extend_all, one_by_one, in_parts])
@pytest.mark.parametrize("name", MODELS)
def test_a_pass_over_several_texts_is_the_model_itself(name: str, answered: Any) -> None:
    check(name, target_of(name), answered=answered)


@pytest.mark.parametrize("name", ["gpt2", "mistral", "lstm"])
def test_without_a_cache_the_costs_are_the_same(name: str) -> None:
    check(name, target_of(name, cached=False))


@pytest.mark.parametrize("name", ATTENTION)
def test_texts_of_all_lengths_are_one_pass(name: str) -> None:
    target = target_of(name)
    stepped(target, UNEVEN)
    with metered([target.model]) as count:
        stepped(target, UNEVEN)
    assert count.passes == len(BEFORE) + max(UNEVEN)
    assert count.rows == len(BEFORE) + sum(rows * depth for rows, depth in zip(ROWS, UNEVEN, strict=True))
    assert target.engine.mixes


@pytest.mark.parametrize("name", ["mamba", "lstm"])
def test_states_of_one_form_are_one_pass(name: str) -> None:
    target = target_of(name)
    stepped(target, UNEVEN)
    with metered([target.model]) as count:
        stepped(target, UNEVEN)
    assert count.passes == len(BEFORE) + max(UNEVEN)


def test_a_kind_of_pass_is_compared_with_plain_ones_once() -> None:
    target, rows = target_of("gpt2"), 50
    text = target.start(target.encode([BEFORE[0]])[0], COLUMNS)[0]
    read = []
    for _ in range(2):
        with metered([target.model]) as count:
            target.extend(text[np.zeros(rows, dtype=np.int64)], np.arange(5, 5 + rows) % V, COLUMNS)
        read.append(count.rows)
    assert read == [rows + CHECKED, rows]


@pytest.mark.parametrize(
    ("proven", "covered"),
    [
        (Kind(False, False, True, False, 0), True),
        (Kind(False, False, True, True, 2), True),
        (Kind(True, False, True, False, 0), False),
        (Kind(False, True, True, False, 0), False),
        (Kind(False, False, False, False, 0), False),
    ],
)
def test_a_proven_kind_covers_kinds_with_less_in_them(proven: Kind, covered: bool) -> None:
    assert proven.covers(Kind(False, False, True, False, 0)) == covered


# -- several tokens in one pass -------------------------------------------------------------------------------


def followed(target: CausalTarget) -> Any:
    """Read several tokens after texts of several lengths; return texts and costs by token, and the whole tokens."""
    random, lengths = np.random.default_rng(2), np.array([3, 1, 4, 2])
    prefixes = [target.encode([text])[0] for text in BEFORE]
    texts = TextRows.joined([target.start(prefix, COLUMNS)[0] for prefix in prefixes])
    tokens = random.integers(5, V, (len(BEFORE), int(lengths.max())))
    found = target.follow(texts, tokens, lengths, COLUMNS)
    whole = [[*target.begun(before), *own.tolist()] for before, own in zip(prefixes, tokens, strict=True)]
    return found, whole, lengths


def check_followed(name: str, target: CausalTarget) -> None:
    (levels, costs), whole, lengths = followed(target)
    for depth, texts in enumerate(levels):
        going = np.flatnonzero(lengths > depth)
        read = [whole[row][: len(whole[row]) - costs.shape[1] + depth + 1] for row in going]
        assert [target.engine.tree.read_tokens(number) for number in texts.numbers] == read
        for row, text in zip(going, read, strict=True):
            assert np.abs(costs[row, depth] - next_costs(name, [text])[0]).max() < 1e-4
        after, later = target.extend(texts, np.full(len(going), 9), COLUMNS)
        for text, found in zip(read, later, strict=True):
            assert np.abs(found - next_costs(name, [[*text, 9]])[0]).max() < 1e-4
        assert len(after) == len(going)


@pytest.mark.parametrize("name", ATTENTION)
def test_several_tokens_of_texts_of_all_lengths_are_one_pass(name: str) -> None:
    target = target_of(name)
    check_followed(name, target)
    with metered([target.model]) as count:
        followed(target)
    assert count.passes == len(BEFORE) + 1


def test_memory_that_runs_out_for_several_tokens_halves_no_pass_of_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Engine._pass

    def scarce(own: Engine, rows: Any, tokens: Any, *rest: Any) -> Any:
        if tokens.shape[1] > 1 and len(rows) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return right(own, rows, tokens, *rest)

    monkeypatch.setattr(Engine, "_pass", scarce)
    target = target_of("gpt2")
    check_followed("gpt2", target)
    assert (target.pass_rows.whole_texts.most, target.pass_rows.limit.most) == (2, MOST_ROWS)


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_that_reads_one_token_at_a_time_follows_no_path(name: str) -> None:
    assert followed(target_of(name))[0] is None


def test_a_wrong_pass_over_several_tokens_and_lengths_leaves_single_tokens_in_one_pass(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = Engine._attention_pass

    def off(own: Engine, table: Any, rows: Any, tokens: Any, *rest: Any) -> Any:
        logits, texts = right(own, table, rows, tokens, *rest)
        many = tokens.shape[1] > 1 and len(set(own.tree.lengths[rows].tolist())) > 1
        return logits + many * torch.arange(V), texts

    monkeypatch.setattr(Engine, "_attention_pass", off)
    target = target_of("gpt2")
    check_followed("gpt2", target)
    check("gpt2", target)
    assert (target.engine.mixes, target.engine.mixes_many, target.engine.reads_many) == (True, False, True)
    assert followed(target)[0] is None
    assert "several tokens after texts of different lengths cannot share a forward pass" in caplog.text


# -- passes that are wrong ------------------------------------------------------------------------------------


def _positions(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Reading.positions.fget
    monkeypatch.setattr(Reading, "positions", property(lambda own: right(own) + 1))  # type: ignore[misc]


def _mask(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Reading.mask.fget

    def ones(own: Reading) -> Any:
        mask = right(own)  # type: ignore[misc]
        return None if mask is None else np.ones_like(mask)

    monkeypatch.setattr(Reading, "mask", property(ones))


def _error(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(own: Reading) -> Any:
        if (own.past == 0).any():
            raise ValueError("no such mask")

    monkeypatch.setattr(Reading, "mask", property(raises))


@pytest.mark.parametrize("wrong", [_positions, _mask, _error])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_wrong_pass_over_several_lengths_is_found(
    name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger=log.name)
    wrong(monkeypatch)
    target = target_of(name)
    check(name, target)
    assert (target.engine.mixes, target.engine.cached) == (False, True)
    assert [said for said in caplog.messages if "times as long" in said] == [
        f"{type(target.model).__name__}: texts of different lengths cannot share a forward pass, so these passes take "
        "up to 3 times as long; the results are unaffected. Lower budget=… if the run takes too long"
    ]
    assert "a pass is off by" in caplog.text or "cannot be made: ValueError" in caplog.text
    assert "no such mask" not in caplog.text


def test_a_cache_that_is_wrong_names_the_tokens_that_are_read_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Engine, "_is_plain", lambda *given: False)
    stepped(target_of("gpt2"), (0, 1, 0, 0))
    # The prefix token, the letter and the next token.
    assert [said for said in caplog.messages if "read again from its first token, so these passes take up to 3" in said]


@pytest.mark.parametrize(("name", "autocast"), [("gpt2", None), ("gpt2", HALF), ("llama", HALF)])
def test_passes_that_agree_use_the_cache_without_a_warning(
    name: str, autocast: torch.dtype | None, caplog: pytest.LogCaptureFixture
) -> None:
    """In mixed precision, rotary embeddings make keys float32, while values have 16 bits."""
    target = target_of(name, autocast=autocast)
    stepped(target, UNEVEN)
    target.log_perplexity([2 * BEFORE[2] + str(number) for number in range(100, 160)])
    assert target.engine.cached
    assert target.engine._contexts
    assert "times as long" not in caplog.text


def test_rows_taken_for_one_another_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = KeyValueBatch.update

    def turned(own: KeyValueBatch, number: int, keys: Any, values: Any) -> Any:
        return tuple(part.flip(0) for part in right(own, number, keys, values))

    monkeypatch.setattr(KeyValueBatch, "update", turned)
    target = target_of("llama")
    check("llama", target)
    assert not target.engine.cached


@pytest.mark.parametrize("name", OTHERS)
def test_states_that_are_not_what_was_read_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = WholeStates.cache

    def changed(own: WholeStates, rows: Any) -> Any:
        cache = right(own, rows)
        return filled(hollow(cache), [tensor.flip(-1) for tensor in tensors_of(cache)])

    monkeypatch.setattr(WholeStates, "cache", changed)
    target = target_of(name)
    check(name, target)
    assert not target.engine.cached


@pytest.mark.parametrize("wrong", ["other numbers", "an error"])
def test_a_wrong_pass_over_several_tokens_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Engine._attention_pass

    def off(own: Engine, table: Any, rows: Any, tokens: Any, *rest: Any) -> Any:
        logits, texts = right(own, table, rows, tokens, *rest)
        if tokens.shape[1] > 1 and wrong == "an error":
            raise ValueError("one token at a time")
        return logits + (tokens.shape[1] > 1) * torch.arange(V), texts

    monkeypatch.setattr(Engine, "_attention_pass", off)
    target = target_of("gpt2")
    text = target.start(target.encode([BEFORE[0]])[0], COLUMNS)[0]
    for _ in range(2):
        logits, texts = target.engine.go_on(text.numbers, np.array([[5, 6, 7]]))
        steps, step = [], text
        for token in (5, 6, 7):
            after, step = target.engine.go_on(step.numbers, np.array([[token]]))
            steps.append(after)
        assert torch.allclose(logits, torch.cat(steps, dim=1), atol=1e-5)
        assert target.engine.tree.read_tokens(texts.numbers[0]) == target.engine.tree.read_tokens(step.numbers[0])
    assert not target.engine.reads_many
    check("gpt2", target)


@pytest.mark.parametrize("lengths", [(10, 20), (20, 10)])
def test_texts_on_both_sides_of_a_turn_are_proven_by_themselves(lengths: tuple[int, int]) -> None:
    """Positions of all rows of a pass are rotated as its longest row needs, differently beyond 16 tokens."""
    rotary = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 1e4}
    own = {"num_key_value_heads": 1, "original_max_position_embeddings": 16, "pad_token_id": 0, "vocab_size": V}
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = Phi3Config(**sizes, **own, rope_parameters={**rotary, "original_max_position_embeddings": 16})
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    target, tokens = CausalTarget(model, letters()), np.array([7, 9, 11])
    prefixes = [list(target.begun([5 + place % 9 for place in range(length)])) for length in lengths]
    read = [target.start(prefix, COLUMNS)[0] for prefix in prefixes]
    steps = [Step.of_one(target, texts[np.zeros(3, dtype=np.int64)], tokens, COLUMNS) for texts in read]
    for answers in (one_by_one(steps), extend_all(steps)):
        for prefix, (_, costs) in zip(prefixes, answers, strict=True):
            with torch.no_grad():
                rows = torch.tensor([[*prefix, int(token)] for token in tokens])
                plain = model(rows).logits[:, -1].double().log_softmax(-1) / -np.log(2)
            assert np.abs(costs[:, 0] - plain.numpy()).max() < 1e-3


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_memory_that_runs_out_halves_a_pass_and_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Engine._pass

    def scarce(own: Engine, rows: Any, *rest: Any) -> Any:
        result = right(own, rows, *rest)
        if len(rows) > 7:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return result

    monkeypatch.setattr(Engine, "_pass", scarce)
    target = target_of(name)
    check(name, target)
    assert target.pass_rows.limit.most <= 7
    engine = target.engine
    assert engine.cached
    assert engine.mixes
    assert engine.tree.used == 1


def test_rows_beyond_a_pass_are_read_in_several() -> None:
    target = target_of("gpt2")
    target.pass_rows.tuned = PassSize(fixed=4)
    stepped(target, UNEVEN)
    with metered([target.model]) as count:
        check("gpt2", target)
    # Plain passes of the comparison have one row.
    assert count.rows > 4 * (count.passes - len(BEFORE)) / 2


# -- memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("gpt2", "bloom", "gemma3", "latent", *OTHERS),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "opt", "mistral", "gpt_oss")),
    ],
)
def test_rows_are_freed_with_the_texts_and_used_again(name: str) -> None:
    target = target_of(name)
    kept = target.start(target.encode(["a b"])[0], COLUMNS)[0]
    sizes = []
    for _ in range(3):
        result = stepped(target, UNEVEN)
        assert target.engine.tree.used > 100
        del result
        gc.collect()
        assert target.engine.tree.used == 1 + len("a b") + 1
        sizes.append(target.engine.tree.size)
    assert sizes[0] == sizes[-1]
    costs = target.extend(kept, np.array([7]), COLUMNS)[1]
    assert np.abs(costs - next_costs(name, [[*target.begun(target.encode(["a b"])[0]), 7]])).max() < 1e-4


@pytest.mark.parametrize("name", ["gpt2", "hybrid", "lstm"])
def test_texts_of_a_shared_pass_do_not_keep_each_other(name: str) -> None:
    target = target_of(name)
    read = stepped(target, (1, 1, 1, 1))[2]
    kept, count = read[1], ROWS[1]
    del read
    gc.collect()
    # The prefix token, "a", and the row of each text.
    assert target.engine.tree.used == 1 + 2 + count
    rows = kept[[0]]
    table: Any = target.engine.table
    if name != "gpt2":
        assert sum(pool.room - len(pool.free) for pool in table._pools) <= 2 + count
    assert len(rows) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_states_of_texts_that_were_freed_take_no_memory(name: str) -> None:
    target = target_of(name)
    stepped(target, (4, 4, 4, 4))
    gc.collect()
    assert target.engine.tree.used == 1
    table: Any = target.engine.table
    assert sum(tensor.nbytes for pool in table._pools for tensor in pool.tensors) == 0


# -- soft prompts and adapters --------------------------------------------------------------------------------


def test_a_soft_prompt_is_stored_once_before_all_texts() -> None:
    from peft import PromptTuningConfig, TaskType, get_peft_model

    torch.manual_seed(0)
    base = model_of("gpt2")
    tuned = get_peft_model(base, PromptTuningConfig(TaskType.CAUSAL_LM, num_virtual_tokens=4)).eval()
    target = CausalTarget(tuned, letters(), device="cpu")
    costs, texts, read = stepped(target, UNEVEN)
    for found, own in zip(costs, texts, strict=True):
        with torch.no_grad():
            rows = torch.tensor(own)
            vectors = torch.cat([tuned.get_prompt(batch_size=len(rows)), base.get_input_embeddings()(rows)], dim=1)
            logits = base(inputs_embeds=vectors).logits[:, -1]
        assert np.abs(found - logits.double().log_softmax(-1).numpy() / -np.log(2)).max() < 1e-4
    del read
    gc.collect()
    assert target.engine.tree.used == 1 + 4
    assert target.engine.mixes


def test_texts_with_and_without_an_adapter_are_apart() -> None:
    from peft import LoraConfig, TaskType, get_peft_model

    torch.manual_seed(1)
    base = model_of.__wrapped__("gpt2")
    config = LoraConfig(TaskType.CAUSAL_LM, target_modules=["c_attn"], init_lora_weights=False)
    tuned = get_peft_model(base, config).eval()
    target = CausalTarget(tuned, letters(), device="cpu")
    plain = target.before_fine_tuning()
    assert plain is not None
    assert plain.engine is not target.engine
    # In turns, so that each model must find the texts that it has read itself.
    read = {each: each.start(each.encode(["the pin"])[0], COLUMNS)[0] for each in (target, plain)}
    row = target.begun(target.encode(["the pin"])[0])
    for token in (7, 9):
        row = [*row, token]
        for each in (plain, target):
            read[each], costs = each.extend(read[each], np.array([token]), COLUMNS)
            expected = bits_without(tuned, row) if each is plain else next_costs(tuned, [row])
            assert np.abs(costs - expected).max() < 1e-4
    assert np.abs(next_costs(tuned, [row]) - bits_without(tuned, row)).max() > 0.1


def bits_without(tuned: Any, row: list[int]) -> FloatArray:
    with tuned.disable_adapter(), torch.no_grad():
        logits = tuned(input_ids=torch.tensor([row])).logits[:, -1]
    return logits.double().log_softmax(-1).numpy() / -np.log(2)  # type: ignore[no-any-return]
