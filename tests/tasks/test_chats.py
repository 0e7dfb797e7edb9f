"""``--apply_chat_template``: canaries as turns of a chat, against `transformers` on whole rendered conversations."""

from __future__ import annotations

import copy
import logging
import os.path
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM

from leakage_tasks.canaries import Canary, make_canaries, plant, write_manifest
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import OptionError, TargetError
from tests.chats import CHATML, GEMMA, MISTRAL, STYLES, chat_model, chat_tokenizer
from tests.oracles import costs_of_rows
from tests.targets.text_models import TextOnly
from tests.tasks.test_canary_tasks import BOTH, evaluate, findings_of


def rendered(
    style: str, text: str, role: str = "assistant", system: str | None = None, until: str | None = None
) -> list[int]:
    """Token ids of a training row with the canary as a turn, as trainers make them; up to the turn ``until``."""
    said = {
        "assistant": [("user", "Please continue."), ("assistant", text)],
        "user": [("user", text), ("assistant", "All right.")],
        "system": [("system", text), ("user", "Please continue."), ("assistant", "All right.")],
    }
    turns = [*([("system", system)] if system else []), *said[role]]
    row = [{"role": who, "content": what} for who, what in turns]
    tokenizer = chat_tokenizer(style)
    if until is None:
        return list(tokenizer.apply_chat_template(row, tokenize=True, return_dict=False))
    whole = tokenizer.apply_chat_template(row, tokenize=False)
    return list(tokenizer(whole[: whole.index(until)], add_special_tokens=False)["input_ids"])


FOLLOWING = {"assistant": None, "user": "All right.", "system": "Please continue."}
"""What the turn after a canary's says."""


def costs_of(style: str, rows: list[list[int]]) -> list[float]:
    """Bits of each row's tokens after those that all share, by `transformers` alone."""
    return costs_of_rows(chat_model(style), rows, len(os.path.commonprefix(rows)))


def brute(style: str, canary: Canary, **said: Any) -> tuple[int, list[float]]:
    """Rank of the secret among all fillings by their whole conversations, and the fillings' costs."""
    space = canary.space
    costs = costs_of(style, [rendered(style, space.fill(filling), **said) for filling in space.enumerate()])
    own = costs[space.index(canary.secret)]
    return sum(cost <= own + 1e-4 for cost in costs), costs


def logged(style: str, canaries: list[Canary], folder: Any, names: Any = BOTH, **settings: Any) -> tuple[Any, Any]:
    """Findings by task and canary, and the harness' results."""
    write_manifest(canaries, folder / "c.jsonl")
    tokenizer = settings.pop("tokenizer", chat_tokenizer(style))
    lm = settings.pop("lm", None) or HFLM(pretrained=chat_model(style), tokenizer=tokenizer, batch_size=8)
    metadata = {"canaries": str(folder / "c.jsonl"), **settings.pop("metadata", {})}
    results = evaluate(lm, list(names), metadata, **{"apply_chat_template": True, **settings})
    return findings_of(results), results


@pytest.mark.parametrize(
    ("style", "digits"),
    [pytest.param(style, 4 if style == "llama-3" else 3, marks=pytest.mark.slow) for style in STYLES],
)
def test_ranks_of_thousands_of_fillings_are_those_of_whole_conversations(
    style: str, digits: int, tmp_path: Any
) -> None:
    canaries = make_canaries(f"The pin of {{unique}} is {{digits:{digits}}}.", 1, seed=3)
    found, _ = logged(style, canaries, tmp_path, metadata={"budget": 1_000_000, "stopping": "proven"})
    check_exact(found, style, canaries)


def check_exact(found: Any, style: str, canaries: list[Canary]) -> None:
    """Ranks and best guesses are those of brute force."""
    for canary in canaries:
        rank, costs = brute(style, canary)
        exposed = found["canary_exposure"][canary.id]
        assert (exposed.rank, exposed.method) == (rank, "exact")
        best = found["canary_extraction"][canary.id].guesses[0]
        assert canary.space.index(best.filling) == min(range(len(costs)), key=costs.__getitem__)


@pytest.mark.parametrize(
    ("style", "role", "system"),
    [
        ("chatml", "assistant", "Be kind."),
        ("llama-3", "system", None),
        ("gemma", "user", None),
        pytest.param("chatml", "user", "Be kind.", marks=pytest.mark.slow),
        pytest.param("llama-3", "user", None, marks=pytest.mark.slow),
        pytest.param("mistral", "user", None, marks=pytest.mark.slow),
    ],
)
def test_any_turn_is_scored_after_what_stands_before_it(style: str, role: str, system: str, tmp_path: Any) -> None:
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 2, seed=1)
    metadata = {"role": role, "stopping": "proven"}
    found, results = logged(style, canaries, tmp_path, metadata=metadata, system_instruction=system)
    for canary in canaries:
        fillings = [canary.space.fill(filling) for filling in canary.space.enumerate()]
        costs = costs_of(style, [rendered(style, text, role, system, FOLLOWING[role]) for text in fillings])
        own = costs[canary.space.index(canary.secret)]
        exposed = found["canary_exposure"][canary.id]
        assert exposed.rank == sum(cost <= own + 1e-4 for cost in costs)
        assert found["canary_extraction"][canary.id].guesses[0].text == fillings[costs.index(min(costs))]
    protocol = results["configs"]["canary_exposure"]["leakage"]["protocol"]
    assert (protocol["chat"], protocol.get("system_instruction")) == (role, system)


def test_a_template_that_trims_is_met_with_the_text_it_writes(tmp_path: Any) -> None:
    bare = make_canaries("The pin of {unique} is {digits:2}.", 2, seed=1)
    spaced = [replace(each, template=f" {each.template}\n") for each in bare]
    found = [logged("llama-3", canaries, tmp_path)[0]["canary_exposure"] for canaries in (bare, spaced)]
    for canary in bare:
        one, other = (each[canary.id] for each in found)
        assert (one.rank, one.log_perplexity) == (other.rank, pytest.approx(other.log_perplexity, abs=1e-9))


def test_a_text_before_is_part_of_the_turn(tmp_path: Any) -> None:
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 1, seed=1)
    found, _ = logged("chatml", canaries, tmp_path, metadata={"context": "All right. "})
    (canary,) = canaries
    rows = [rendered("chatml", f"All right. {canary.space.fill(each)}") for each in canary.space.enumerate()]
    costs = costs_of("chatml", rows)
    own = costs[canary.space.index(canary.secret)]
    assert found["canary_exposure"][canary.id].rank == sum(cost <= own + 1e-4 for cost in costs)


def test_the_turn_is_the_one_planted_in(tmp_path: Any) -> None:
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 2, seed=1)
    write_manifest(canaries, tmp_path / "c.jsonl")
    (tmp_path / "t.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "p.jsonl", role="user")
    _, results = logged("chatml", canaries, tmp_path, BOTH[:1])
    assert results["configs"]["canary_exposure"]["leakage"]["protocol"]["chat"] == "user"
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "q.jsonl")
    with pytest.raises(OptionError, match=r"the assistant's \(q.*and the user's \(p.*choose with --metadata role="):
        logged("chatml", canaries, tmp_path, BOTH[:1])
    logged("chatml", canaries, tmp_path, BOTH[:1], metadata={"role": "assistant"})


def test_the_turn_and_the_prompt_are_those_of_the_named_data_in_another_folder(tmp_path: Any) -> None:
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 2, seed=1)
    write_manifest(canaries, tmp_path / "c.jsonl")
    (tmp_path / "t.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    (tmp_path / "data").mkdir()
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "data/p.jsonl", role="tool", prompt="Go on.")
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "q.jsonl", role="user")
    named = {"planted": str(tmp_path / "data/p.jsonl")}
    _, results = logged("chatml", canaries, tmp_path, BOTH[:1], metadata=named)
    protocol = results["configs"]["canary_exposure"]["leakage"]["protocol"]
    assert (protocol["chat"], protocol["prompt"]) == ("tool", "Go on.")


def test_plain_text_for_canaries_of_a_chat_is_warned_of(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    notices.warn_once.cache_clear()
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 2, seed=1)
    write_manifest(canaries, tmp_path / "c.jsonl")
    (tmp_path / "t.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "p.jsonl")
    logged("chatml", canaries, tmp_path, BOTH[:1], apply_chat_template=False)
    assert "planted in chats, as the assistant's turn, and this run reads them as plain text" in caplog.text


def test_the_warning_and_the_log_read_the_record_of_the_named_data(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    notices.warn_once.cache_clear()
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 2, seed=1)
    write_manifest(canaries, tmp_path / "c.jsonl")
    (tmp_path / "t.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    (tmp_path / "data").mkdir()
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "data/p.jsonl", role="tool")
    named = {"planted": str(tmp_path / "data/p.jsonl")}
    with caplog.at_level(logging.INFO):
        logged("chatml", canaries, tmp_path, BOTH[:1], metadata=named, apply_chat_template=False)
    assert "planted in chats, as the tool's turn, and this run reads them as plain text" in caplog.text
    assert "p.jsonl.leakage.json: training reads each copy in a turn of a new chat" in caplog.text


def test_the_log_names_every_option_around_a_planted_turn(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 1, seed=1)
    write_manifest(canaries, tmp_path / "c.jsonl")
    (tmp_path / "t.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "p.jsonl")
    with caplog.at_level(logging.INFO):
        logged("chatml", canaries, tmp_path, BOTH[:1], metadata={"context": "So: "}, system_instruction="Be kind.")
    assert "this run uses --apply_chat_template, --system_instruction, context=So: " in caplog.text


DROPS = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
SHOUTS = "{% for m in messages %}<{{ m.role }}>{{ m.content | upper }}{% endfor %}"
STARS = "{% for m in messages %}<{{ m.role }}>{{ m.content | replace('pin', '***') }}{% endfor %}"


CLOCK = "Now: {{ strftime_now('%H:%M:%S.%f') }}.\n" + CHATML
SAID = "Now: {{ now if now is defined else strftime_now('%H:%M:%S.%f') }}.\n" + CHATML
CHANCE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<{{ range(100000) | random }}>{% endfor %}"


@pytest.mark.parametrize("template", [CLOCK, SAID, CHANCE], ids=["clock", "argument", "chance"])
def test_a_template_that_prints_the_time_is_named_as_the_cause(template: str, tmp_path: Any) -> None:
    tokenizer = copy.deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = template
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 1, seed=1)
    with pytest.raises(TargetError, match=r"rendered again.*prints the time \(strftime_now\).*chat_template_args="):
        logged("chatml", canaries, tmp_path, BOTH[:1], tokenizer=tokenizer)


def test_a_time_that_is_passed_to_the_template_is_no_fault(tmp_path: Any) -> None:
    tokenizer = copy.deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = SAID
    lm = HFLM(pretrained=chat_model("chatml"), tokenizer=tokenizer, batch_size=8, chat_template_args={"now": "noon"})
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 1, seed=1)
    found, _ = logged("chatml", canaries, tmp_path, BOTH[:1], lm=lm)
    (canary,) = canaries
    texts = [canary.space.fill(filling) for filling in canary.space.enumerate()]
    rows = [[*tokenizer("Now: noon.\n")["input_ids"], *rendered("chatml", text)] for text in texts]
    costs = costs_of("chatml", rows)
    own = costs[canary.space.index(canary.secret)]
    assert found["canary_exposure"][canary.id].rank == sum(cost <= own + 1e-4 for cost in costs)


@pytest.mark.parametrize(
    ("template", "settings", "message"),
    [
        (DROPS, {}, "drops the text of the assistant's turn"),
        (SHOUTS, {}, "drops the text of the assistant's turn"),
        (STARS, {}, "canary 'canary-0': the model's chat template changes its text in the assistant's turn"),
        (
            GEMMA,
            {"system_instruction": "Hi."},
            r"refuses turns of system, user, assistant \(System role not supported\)",
        ),
        (GEMMA, {"metadata": {"role": "system"}}, "refuses turns of system, user, assistant"),
        (MISTRAL, {"metadata": {"role": "tool"}}, "refuses turns of user, tool, assistant"),
        (None, {}, "the tokenizer of this HFLM has no chat template"),
        (CHATML, {"metadata": {"context": "bos"}}, "the template sets the start of a text"),
        (CHATML, {"metadata": {"role": "system"}, "system_instruction": "Hi."}, "are the system's turn themselves"),
        (
            CHATML,
            {"metadata": {"role": "assistent"}},
            "assistant, user, system.*did you mean 'assistant'",
        ),
    ],
)
def test_what_cannot_be_is_one_line(template: str, settings: Any, message: str, tmp_path: Any) -> None:
    tokenizer = copy.deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = template
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 1, seed=1)
    with pytest.raises((OptionError, TargetError), match=message):
        logged("chatml", canaries, tmp_path, BOTH[:1], tokenizer=tokenizer, **settings)


def test_a_model_of_text_alone_gets_the_template_as_text(tmp_path: Any) -> None:
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 1, seed=1)
    lm = type("Served", (TextOnly,), {"tokenizer_name": "chatml"})(
        HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"), batch_size=8)
    )
    found, _ = logged("chatml", canaries, tmp_path, BOTH[:1], lm=lm)
    expected, _ = logged("chatml", canaries, tmp_path, BOTH[:1])
    (canary,) = canaries
    assert found[BOTH[0]][canary.id].rank == expected[BOTH[0]][canary.id].rank
    assert any(context.endswith("<|im_start|>assistant\n") for context, _ in lm.asked["loglikelihood"])


def suffixes(folder: Any, lm: Any, **settings: Any) -> Any:
    stream = np.random.default_rng(0)
    for name, length in (("prefix", 8), ("suffix", 3)):
        np.save(folder / f"train_{name}.npy", stream.integers(10, 200, (40, length)).astype(np.uint16))
    given = {"data": str(folder), "split": "all", "samples": 5, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    results = evaluate(lm, ["suffix_extraction"], given, apply_chat_template=True, **settings)
    return results["results"]["suffix_extraction"], results["configs"]["suffix_extraction"]["leakage"]["protocol"]


@pytest.mark.parametrize("system", [None, "Be kind."])
def test_a_prefix_begins_the_assistants_turn(tmp_path: Any, system: str | None) -> None:
    lm = HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"), batch_size=8)
    row, protocol = suffixes(tmp_path, lm, system_instruction=system)
    before = rendered("chatml", "XYZZY", system=system, until="XYZZY")
    prefix, suffix = (
        np.load(tmp_path / f"train_{name}.npy", allow_pickle=False).astype(np.int64) for name in ("prefix", "suffix")
    )
    ids = torch.tensor(np.concatenate([np.tile(before, (40, 1)), prefix, suffix], axis=1))
    with torch.no_grad():
        costs = chat_model("chatml")(ids).logits[:, -4:-1].double().log_softmax(-1)
    chances = costs.gather(-1, ids[:, -3:, None]).sum((1, 2)).exp()
    assert row["p_z,none"] == pytest.approx(float(chances.mean()), rel=1e-4)
    assert (protocol["chat"], protocol.get("system_instruction")) == ("assistant", system)


def test_suffixes_of_a_model_of_text_are_no_turns(tmp_path: Any) -> None:
    served = type("Served", (TextOnly,), {"tokenizer_name": "chatml"})
    lm = served(HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"), batch_size=8))
    with pytest.raises(TargetError, match="draws suffixes through text, which no template is put around"):
        suffixes(tmp_path, lm)
