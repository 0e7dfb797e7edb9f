"""Secrets in texts that a model writes: how many, against the model's own probabilities and the binomial law."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.model import LM
from scipy import stats

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.metrics import extraction
from leakage_tasks.metrics.tiers import copies_of
from leakage_tasks.targets.harness.target import HarnessTarget
from tests.oracles import letters, tiny_gpt2
from tests.targets.text_models import TextOnly, hf, named

CANARY = make_canaries("pin ab is {digits:1}", 1, seed=1)[0]


class Writes(LM):
    """Writes texts of a list in turn, and nothing else."""

    def __init__(self, texts: Any) -> None:
        super().__init__()
        self.texts, self.asked = itertools.cycle(texts), []

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def generate_until(self, requests: Any) -> list[str]:
        self.asked += [request.args for request in requests]
        return [next(self.texts) for _ in requests]


def attacked(lm: Any, canary: Canary = CANARY, name: str = "sample-text", seed: int = 0, **settings: Any) -> Any:
    (found,) = run_attack(name, HarnessTarget(lm), [canary], goal="extraction", values=settings, seed=seed)
    return found


def secret_of(canary: Canary) -> str:
    return "".join(canary.secret)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_hits_are_binomial_with_the_model_s_own_probability(temperature: float) -> None:
    model, tokenizer = tiny_gpt2(letters(), 3, 3.0), letters()
    prompt = CANARY.space.prefix.rstrip()
    start = tokenizer(prompt, return_tensors="pt")["input_ids"]
    (space,), (digit,) = (tokenizer(text)["input_ids"] for text in (" ", secret_of(CANARY)))
    with torch.no_grad():
        first = (model(start).logits[0, -1] / temperature).softmax(0)[space]
        second = (model(torch.cat([start, torch.tensor([[space]])], 1)).logits[0, -1] / temperature).softmax(0)[digit]
    # The space after the prompt may be missing: what follows is read after it or without it.
    with torch.no_grad():
        bare = (model(start).logits[0, -1] / temperature).softmax(0)[digit]
    probability = float(first * second + bare)
    number = 3000
    torch.manual_seed(0)
    found = attacked(TextOnly(hf(letters(), model)), texts=number, temperature=temperature)
    assert stats.binomtest(found.extra["hits"], number, probability).pvalue > 1e-3


def test_what_is_written_most_often_is_the_best_guess() -> None:
    right, wrong = secret_of(CANARY), "7" if secret_of(CANARY) != "7" else "3"
    found = attacked(Writes([f" {right}.", f" {wrong}", f"{right}", "no", f" {right}"]), texts=20)
    assert (found.extra["hits"], found.extra["texts"], found.model_calls) == (12, 20, 20)
    assert [guess.filling for guess in found.guesses] == [(right,), (wrong,)]
    assert [guess.score for guess in found.guesses] == pytest.approx([-math.log2(12 / 20), -math.log2(4 / 20)])
    assert (found.place, found.correct) == (1, (True,))


def test_no_two_draws_are_one_request_that_a_server_answers_once() -> None:
    api = named("LocalCompletionsAPI", Writes)([" 1"])
    attacked(api, texts=3)
    assert len(api.asked) == 3
    for _, settings in api.asked:
        assert (settings["do_sample"], settings["temperature"], settings["top_p"]) == (True, 1.0, 1.0)
        assert settings["seed"] is None


def test_a_model_that_takes_seeds_gets_another_for_each_draw_and_the_same_in_each_run() -> None:
    seeds = []
    for seed in (0, 0, 1):
        served = named("VLLM", Writes)([" 1"])
        attacked(served, texts=5, seed=seed)
        seeds.append([settings["seed"] for _, settings in served.asked])
    assert len(set(seeds[0])) == 5
    assert seeds[0] == seeds[1] != seeds[2]


def test_auto_draws_where_a_model_only_writes() -> None:
    assert attacked(Writes([" 1"]), name="auto").attack == "sample-text"


@pytest.mark.parametrize("error", [KeyError("logprobs"), AssertionError("not for this model"), TypeError("none")])
def test_auto_draws_where_a_server_leaves_likelihoods_out(error: Exception) -> None:
    class Server(Writes):
        def loglikelihood(self, requests: Any) -> Any:
            raise error

    assert attacked(Server([" 1"]), name="auto").attack == "sample-text"
    with pytest.raises(TargetError, match="Server gives no log-likelihoods"):
        HarnessTarget(Server([" 1"])).log_perplexity(["pin"])


def test_an_error_of_a_model_that_scores_is_its_own() -> None:
    class Mistaken(Writes):
        def loglikelihood(self, requests: Any) -> Any:
            return [(-1.0 if text == "a" else None + 1, False) for _, text in (each.args for each in requests)]

    with pytest.raises(TypeError, match="NoneType"):
        HarnessTarget(Mistaken([" 1"])).log_perplexity(["pin"])


def test_no_hit_at_all_is_no_proof_of_none() -> None:
    found = attacked(Writes([" x"]), texts=20)
    rows = {row.name: row.aggregate([row.value(found)]) for row in extraction.metrics({1: 1}) if row.applies(found)}
    assert (rows["p_z"], rows["p_z_ci_low"]) == (0, 0)
    assert rows["p_z_ci_high"] == rows["p_z_most"] == pytest.approx(1 - 0.025 ** (1 / 20))


def test_auto_draws_nothing_where_a_model_scores() -> None:
    assert attacked(TextOnly(hf(letters())), name="auto").attack == "brute-force"


def test_a_model_that_decodes_greedily_is_declined() -> None:
    with pytest.raises(TargetError, match="always decodes greedily"):
        attacked(named("GGUFLM", Writes)([" 1"]))


def test_one_text_again_and_again_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    attacked(Writes([" 1"]), texts=10)
    assert any("wrote one text 10 times" in record.getMessage() for record in caplog.records)


def test_a_template_that_begins_with_its_secret_is_one_line() -> None:
    canary = Canary("a", "{digits:1} is it", ("1",))
    with pytest.raises(TargetError, match="attack=sample-text needs text before the first slot"):
        attacked(Writes([" 1"]), canary)


def test_no_texts_are_declined() -> None:
    with pytest.raises(OptionError, match="texts=0"):
        attacked(Writes([" 1"]), texts=0)


def test_of_a_natural_secret_hits_are_not_told() -> None:
    natural = Canary("n", "pin ab is {digits:1}", ("1",), kind="natural")
    found = coarsened(attacked(Writes([" 1", " 2"]), natural, texts=20))
    assert "hits" not in found.extra
    assert found.guesses == ()


def test_rows_are_the_shares_drawn_with_exact_intervals() -> None:
    made = make_canaries("pin of {unique} is {digits:1}", 6, controls=4, seed=2)
    findings = []
    for canary in made:
        texts = [f" {secret_of(canary)}", *[" x"] * 3] if canary.planted and int(canary.id[-1]) < 3 else [" x"]
        findings.append(attacked(Writes(texts), canary, texts=20))
    listed = extraction.metrics(copies_of((each.planted, each.kind, each.tier, each.family) for each in findings))
    rows = {
        row.name: row.aggregate([row.value(each) for each in findings]) for row in listed if row.applies(findings[0])
    }
    assert Counter(each.extra["hits"] for each in findings if each.planted) == {5: 3, 0: 3}
    exact = stats.binomtest(3, 6).proportion_ci(method="exact")
    assert (rows["drawn"], rows["drawn_ci_low"], rows["drawn_ci_high"]) == pytest.approx((0.5, exact.low, exact.high))
    assert rows["p_z"] == pytest.approx(0.125)
    assert rows["p_z_most"] == pytest.approx(stats.beta.ppf(0.975, 6, 15))
    assert (rows["control_drawn"], rows["control_p_z"]) == (0, 0)


def test_other_attacks_have_no_such_rows() -> None:
    found = attacked(TextOnly(hf(letters())), name="brute-force")
    listed = extraction.metrics({1: 1})
    assert not {row.name for row in listed if row.applies(found)} & {"drawn", "p_z", "p_z_most", "control_p_z"}


TOKENS = Alphabet("tokens", ("a", "ab", "b", "bc", "c"))


@given(st.lists(st.sampled_from(TOKENS.values), min_size=3, max_size=3), st.sampled_from(["", " end", "bc"]))
@pytest.mark.parametrize("name", ["sample-text", "greedy"])
def test_a_secret_that_is_written_verbatim_is_a_hit_however_its_text_can_be_read(
    name: str, secret: list[str], after: str
) -> None:
    """Values of several lengths without text between them: their text has several readings."""
    canary = Canary("c", "pin is {tokens:3}", tuple(secret), alphabets={"tokens": TOKENS})
    found = attacked(Writes([f" {secret_of(canary)}{after}"]), canary, name)
    # A longer value in the last slot is another secret.
    written = f"{secret[-1]}{after}"
    continues = any(written.startswith(value) and len(value) > len(secret[-1]) for value in TOKENS.values)
    assert all(found.correct) is not continues
    assert found.place == (None if continues else 1)
    if name == "sample-text":
        assert found.extra["hits"] == (0 if continues else found.extra["texts"])
