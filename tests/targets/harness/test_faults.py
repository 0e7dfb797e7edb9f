"""Errors of a harness model: its forward pass fails, or it has no log-likelihoods; neither is taken for the other."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests
import torch
from aiohttp import ClientConnectionError, ClientPayloadError
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.core.errors import ForwardPassError, ServerError, TargetError
from leakage_tasks.targets.harness.faults import forward_faults, private_forward_faults
from leakage_tasks.targets.harness.target import HarnessTarget, as_target
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from tests.oracles import letters, tiny_gpt2

CANARY = make_canaries("pin {unique} is {digits:1}", 1)[0]
FAULTS = [ValueError, KeyError, TypeError, AssertionError, IndexError, NotImplementedError, RuntimeError]


def failing(error: Exception) -> HFLM:
    """A model whose forward pass always raises ``error``."""
    model = copy.deepcopy(tiny_gpt2(letters()))  # the other tests share it

    def forward(*arguments: Any, **named: Any) -> Any:
        raise error

    model.transformer.forward = forward
    return HFLM(pretrained=model, tokenizer=letters(), batch_size=4)


def attack(lm: HFLM, canary: Canary = CANARY, name: str = "auto", goal: Any = "exposure") -> Any:
    return run_attack(name, as_target(lm), [canary], budget=100, goal=goal)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("goal", ["exposure", "extraction"])
def test_a_fault_in_the_forward_pass_is_said_with_its_own_words(kind: type[Exception], goal: str) -> None:
    with pytest.raises(ForwardPassError, match=f"GPT2LMHeadModel failed .{kind.__name__}: .*mask of another") as raised:
        attack(failing(kind("a mask of another shape")), goal=goal)
    assert "log-likelihoods" not in str(raised.value)
    assert isinstance(raised.value.__cause__, kind)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_while_the_model_writes_is_said_so_too(kind: type[Exception]) -> None:
    target = HarnessTarget(failing(kind("a mask of another shape")))
    with pytest.raises(ForwardPassError):
        target.complete("pin", 2)
    with pytest.raises(ForwardPassError):
        target.write("pin", 2, 2, DecodingConfig(), "seed")


def test_nothing_of_the_words_is_shown_for_a_natural_canary() -> None:
    natural = replace(CANARY, kind="natural", seed=None)
    with pytest.raises(ForwardPassError, match="ValueError, of which no more is shown") as raised:
        attack(failing(ValueError(f"cannot read {natural.text}")), natural)
    assert natural.text not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


@pytest.mark.parametrize("reveal", [False, True])
def test_words_of_an_error_over_pairs_are_shown_only_where_pairs_are(reveal: bool) -> None:
    lm = failing(ValueError("cannot read these words"))
    with pytest.raises(ForwardPassError) as raised, private_forward_faults(lm, reveal):
        lm.model(torch.tensor([[1]]))
    assert ("these words" in str(raised.value)) == reveal


def test_memory_that_runs_out_is_no_fault_of_the_forward_pass() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        HarnessTarget(failing(torch.OutOfMemoryError("CUDA out of memory"))).log_perplexity(["pin"])


def test_an_error_outside_the_forward_pass_stays_as_it_is() -> None:
    class Mistaken(HFLM):
        def tok_encode(self, *arguments: Any, **named: Any) -> Any:
            raise KeyError("vocabulary")

    lm = Mistaken(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    with pytest.raises(KeyError, match="vocabulary"):
        HarnessTarget(lm).log_perplexity(["pin"])


def test_a_model_that_says_it_scores_nothing_can_only_write() -> None:
    class Unscored(HFLM):
        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
            raise NotImplementedError("not for this backend")

    target = HarnessTarget(Unscored(pretrained=tiny_gpt2(letters()), tokenizer=letters()))
    assert target.only_writes
    with pytest.raises(TargetError, match="Unscored gives no log-likelihoods"):
        target.log_perplexity(["pin"])


# -- servers ------------------------------------------------------------------------------------------------


def server(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """An API of the harness whose server is ``call``."""
    pytest.importorskip("tenacity", reason="the harness' client of servers takes tenacity")
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    lm = LocalCompletionsAPI(base_url="http://localhost/v1/completions", model="m", tokenizer_backend=None)
    lm.tokenizer, lm.tokenizer_backend, lm.max_retries = letters(), "huggingface", 1
    monkeypatch.setattr(lm, "model_call", call)
    return lm


def answering(**choice: Any) -> Callable[..., Any]:
    """A server whose answers hold a text and ``choice``."""
    return lambda messages, **how: {"choices": [{"index": 0, "text": " 1", **choice} for _ in messages]}


@pytest.mark.parametrize("choice", [{}, {"logprobs": None}, {"logprobs": {}}, {"logprobs": {"token_logprobs": None}}])
def test_a_server_whose_answers_lack_probabilities_can_only_write(
    choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = HarnessTarget(server(answering(**choice), monkeypatch))
    with pytest.raises(
        TargetError, match="LocalCompletionsAPI gives no log-likelihoods: it supports only canary_extraction"
    ):
        target.log_perplexity(["pin"])
    assert target.only_writes
    assert run_attack("auto", target, [CANARY], goal="extraction", values={"texts": 2})[0].attack == "sample-text"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (requests.exceptions.InvalidURL("no host in it"), "InvalidURL: no host in it"),
        (TimeoutError(), "TimeoutError"),
        (ClientPayloadError("rate limit"), "ClientPayloadError: rate limit"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize(
    "use", [lambda target: target.log_perplexity(["pin"]), lambda target: target.complete("pin", 2)]
)
def test_a_server_that_fails_is_no_server_without_probabilities(
    error: Exception, words: str, use: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(messages: Any, **how: Any) -> Any:
        raise error

    with pytest.raises(ServerError, match=f"server of LocalCompletionsAPI failed .{words}.: check"):
        use(HarnessTarget(server(fails, monkeypatch)))


def test_a_download_that_fails_is_no_server_of_a_model_in_this_process() -> None:
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    with pytest.raises(requests.ConnectionError), forward_faults(lm):
        raise requests.ConnectionError("huggingface.co")


def test_other_requests_of_a_failed_batch_are_not_reported_after_the_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused(**how: Any) -> Any:
        raise ClientConnectionError("refused")

    lm = server(answering(), monkeypatch)
    monkeypatch.setattr(lm, "amodel_call", refused)
    lm._concurrent = 4
    with pytest.raises(ServerError):
        HarnessTarget(lm).write("pin", 2, 8, DecodingConfig(), "seed")
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_batch_of_requests_has_no_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    HarnessTarget(server(answering(), monkeypatch)).write("pin", 2, 2, DecodingConfig(), "seed")
    assert "Requesting API" not in capsys.readouterr().err


@pytest.mark.parametrize("canary", [CANARY, replace(CANARY, kind="natural", seed=None)])
def test_words_of_a_server_are_shown_unless_the_canary_is_natural(
    canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(messages: Any, **how: Any) -> Any:
        raise requests.HTTPError("cannot read the request")

    with pytest.raises(ServerError, match="server of LocalCompletionsAPI failed .HTTPError") as raised:
        run_attack("auto", HarnessTarget(server(refused, monkeypatch)), [canary], budget=100)
    assert ("the request" in str(raised.value)) == (canary.kind != "natural")


def test_words_of_a_server_over_texts_are_withheld() -> None:
    with pytest.raises(ServerError) as raised, private_forward_faults(object(), False):
        raise requests.HTTPError("cannot read these words")
    assert "these words" not in str(raised.value)
