"""The harness' own chat client against a server of a tiny chat model, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from scipy import stats

from leakage_tasks.attacks.causal.text_sampling import read_slots
from leakage_tasks.canaries import make_canaries
from tests.chat_server import chat_server, written_by
from tests.chats import chat_model, chat_tokenizer
from tests.tasks.test_chat_endpoints import findings, run

pytest.importorskip("tenacity", reason="the harness' client of servers takes tenacity")
(CANARY,) = make_canaries("The pin of {unique} is {digits:1}.", 1, seed=1)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    from lm_eval.models.openai_completions import LocalChatCompletion

    with chat_server(written_by(chat_model("chatml"), chat_tokenizer("chatml"))) as (address, asked):
        yield LocalChatCompletion(base_url=address, model="tiny"), asked


def exact() -> float:
    """Probability that what the model writes is read as the secret, over all tokens that may come first."""
    model, tokenizer = chat_model("chatml"), chat_tokenizer("chatml")
    turns = [{"role": "user", "content": "Please continue."}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    begun = tokenizer(text + CANARY.space.prefix.rstrip(), add_special_tokens=False)["input_ids"]

    def shares(row: list[int]) -> list[float]:
        with torch.no_grad():
            return list(model(torch.tensor([row])).logits[0, -1].double().softmax(0).tolist())

    def reads(*tokens: int) -> bool:
        said = "" if tokenizer.eos_token_id in tokens else tokenizer.decode(list(tokens))
        return read_slots(CANARY.space, said) == CANARY.secret

    space = tokenizer(" ", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(space) == " "
    first, after = shares(begun), shares([*begun, *space])
    found = sum(share for token, share in enumerate(first) if reads(token))
    return found + first[space[0]] * sum(share for token, share in enumerate(after) if reads(*space, token))


@pytest.mark.slow
def test_a_begun_turn_holds_the_secret_as_often_as_the_model_says(served: Any, tmp_path: Any) -> None:
    (lm, asked), draws = served, 400
    del asked[:]
    ((found),) = findings(run(lm, tmp_path, [CANARY], metadata={"texts": draws, "prefill": True})).values()
    assert stats.binomtest(found.extra["hits"], draws, exact()).pvalue > 1e-3
    assert found.extra["hits"] > 0
    turns = [("user", "Please continue."), ("assistant", CANARY.space.prefix.rstrip())]
    assert {tuple((turn["role"], turn["content"]) for turn in each["messages"]) for each in asked} == {tuple(turns)}
    assert {(each["continue_final_message"], each["add_generation_prompt"]) for each in asked} == {(True, False)}
    assert len({each["seed"] for each in asked}) == len(asked) == draws


def test_a_run_over_http_repeats_and_asks_for_whole_turns(served: Any, tmp_path: Any) -> None:
    lm, asked = served
    del asked[:]
    one, other = (findings(run(lm, tmp_path, [CANARY], metadata={"texts": 5})) for _ in range(2))
    assert one[CANARY.id].extra == other[CANARY.id].extra
    assert [each["seed"] for each in asked[:5]] == [each["seed"] for each in asked[5:]]
    assert {turn["content"] for each in asked for turn in each["messages"]} == {"Please continue."}
    assert not any("continue_final_message" in each for each in asked)
