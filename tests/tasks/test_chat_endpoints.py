"""Endpoints that take messages alone: what they are asked, what is found in their answers, and what is declined."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM
from scipy import stats

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from tests.chats import chat_model, chat_tokenizer
from tests.oracles import letters
from tests.targets.text_models import OnlyWrites, hf, named
from tests.tasks.test_canary_tasks import evaluate

CANARIES = make_canaries("The pin of {unique} is {digits:2}.", 4, controls=4, seed=1)


class Messages(NamedTuple):
    """What the harness hands to such a model in place of a text."""

    prompt: str


class Endpoint(OnlyWrites):
    """Takes messages alone; ``said`` makes an answer of them and the settings."""

    tokenizer_name = ""
    _concurrent = _batch_size = 1

    def __init__(self, said: Any) -> None:
        super().__init__(hf(letters()), lambda context, settings, place: said(json.loads(context.prompt), settings))
        self.tokenizer = None

    def apply_chat_template(self, turns: Any, add_generation_prompt: bool = True) -> Any:
        return Messages(json.dumps(turns))

    def chat_template(self, chosen: Any = False) -> str:
        return ""


def endpoint(said: Any, name: str = "LocalChatCompletion") -> Any:
    return named(name, named("LocalCompletionsAPI", Endpoint))(said)


def run(lm: Any, folder: Any, canaries: Any = CANARIES, task: str = "canary_extraction", **settings: Any) -> Any:
    write_manifest(canaries, folder / "c.jsonl")
    metadata = {"canaries": str(folder / "c.jsonl"), "texts": 10, **settings.pop("metadata", {})}
    return evaluate(lm, [task], metadata, **{"apply_chat_template": True, **settings})


def findings(results: Any) -> dict[str, Any]:
    samples = results["samples"]["canary_extraction"]
    return {each["doc"]["id"]: finding_from_json(each["resps"][0][0]) for each in samples}


def text_of(canary: Canary) -> str:
    return canary.space.fill(canary.secret)


def by_seed(settings: dict[str, Any]) -> float:
    return float(np.random.default_rng(settings["seed"]).random())


def tells(turns: Any, settings: dict[str, Any]) -> str:
    """Of two planted canaries one half of the time each, in the midst of other words; else nothing."""
    first, second = [text_of(canary) for canary in CANARIES if canary.planted][:2]
    return f"Well. {first if by_seed(settings) < 0.5 else second} So it is."


def test_answers_are_searched_for_the_canary_s_beginning_and_what_follows(tmp_path: Any) -> None:
    lm = endpoint(tells)
    found = findings(run(lm, tmp_path, metadata={"texts": 40}))
    seeds = [settings["seed"] for _, settings in lm.asked["generate_until"]]
    assert len(set(seeds)) == len(seeds) == 40 * len(CANARIES)
    hits = {name: each.extra["hits"] for name, each in found.items()}
    first, second, *others = [canary.id for canary in CANARIES if canary.planted]
    assert stats.binomtest(hits[first], 40, 0.5).pvalue > 1e-3
    assert stats.binomtest(hits[second], 40, 0.5).pvalue > 1e-3
    assert [hits[name] for name in hits if name not in (first, second)] == [0] * 6
    assert (found[first].place, found[others[0]].guesses) == (1, ())


def test_rows_and_declaration_of_a_run(tmp_path: Any) -> None:
    results = run(endpoint(tells), tmp_path, metadata={"rows": "all"}, system_instruction="Be kind.")
    row, declared = results["results"]["canary_extraction"], results["configs"]["canary_extraction"]["leakage"]
    hits = {name: each.extra["hits"] for name, each in findings(results).items()}
    planted = [hits[canary.id] for canary in CANARIES if canary.planted]
    assert row["p_z,none"] == pytest.approx(np.mean(planted) / 10)
    assert row["p_z_most,none"] == pytest.approx(stats.binomtest(max(planted), 10).proportion_ci(method="exact").high)
    assert (row["control_p_z,none"], row["drawn,none"]) == (0, 0.5)
    assert declared["attacks"] == [
        {"attack": "sample-text", "access": "black box: answers the model writes to messages"}
    ]
    assert (declared["protocol"]["chat"], declared["protocol"]["system_instruction"]) == ("assistant", "Be kind.")


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("system", [None, "Be kind."])
def test_the_conversation_is_the_one_planted_up_to_the_turn(prefill: bool, system: str | None, tmp_path: Any) -> None:
    lm = endpoint(lambda turns, settings: " 12.")
    canary = CANARIES[0]
    run(lm, tmp_path, [canary], metadata={"texts": 2, "prefill": prefill}, system_instruction=system)
    expected = [{"role": "system", "content": system}] if system else []
    expected += [{"role": "user", "content": "Please continue."}]
    if prefill:
        expected += [{"role": "assistant", "content": canary.space.prefix.rstrip()}]
    for context, settings in lm.asked["generate_until"]:
        assert json.loads(context.prompt) == expected
        assert ("continue_final_message" in settings, "add_generation_prompt" in settings) == (prefill, prefill)
        assert (settings["temperature"], settings["top_p"], settings["do_sample"]) == (1.0, 1.0, True)
        assert settings["max_gen_toks"] >= len(text_of(canary)) - (len(expected[-1]["content"]) if prefill else 0)


@pytest.mark.parametrize("form", [" {}.", "{}.", "{before} {}."])
def test_what_goes_on_from_the_turn_is_read_with_or_without_its_beginning(form: str, tmp_path: Any) -> None:
    canary = CANARIES[0]
    answer = form.format("".join(canary.secret), before=canary.space.prefix.rstrip())
    results = run(endpoint(lambda turns, settings: answer), tmp_path, [canary], metadata={"prefill": True})
    (found,) = findings(results).values()
    assert (found.extra["hits"], found.place) == (10, 1)
    assert found.access == "black box: answers the model writes to messages, whose beginning the attacker chooses"
    assert results["configs"]["canary_extraction"]["leakage"]["protocol"]["prefill"] == "true"


def test_greedy_asks_once(tmp_path: Any) -> None:
    canary = CANARIES[0]
    lm = endpoint(lambda turns, settings: f"Oh: {text_of(canary)}")
    results = run(lm, tmp_path, [canary], metadata={"attack": "greedy", "texts": None})
    assert findings(results)[canary.id].correct == (True, True)
    ((_, settings),) = lm.asked["generate_until"]
    assert (settings["do_sample"], settings["temperature"]) == (False, 0.0)


def test_order_and_company_change_nothing(tmp_path: Any) -> None:
    whole = findings(run(endpoint(tells), tmp_path))
    turned = findings(run(endpoint(tells), tmp_path, CANARIES[::-1]))
    alone = findings(run(endpoint(tells), tmp_path, CANARIES[:1]))
    assert {name: each.extra["hits"] for name, each in turned.items()} == {
        name: each.extra["hits"] for name, each in whole.items()
    }
    assert alone[CANARIES[0].id].extra == whole[CANARIES[0].id].extra
    assert 0 < whole[CANARIES[0].id].extra["hits"] < 10


def test_a_server_that_does_not_go_on_is_pointed_out(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    notices.warn_once.cache_clear()
    lm = endpoint(lambda turns, settings: f"What do you mean? {by_seed(settings)}")
    run(lm, tmp_path)
    assert "no text that the model wrote" not in caplog.text
    run(lm, tmp_path, metadata={"prefill": True})
    assert "prefill=true: no text that the model wrote begins with a value that a slot may have" in caplog.text


SPEAKS = endpoint(lambda turns, settings: "12")
PREFILL = {"metadata": {"prefill": True}}


@pytest.mark.parametrize(
    ("lm", "settings", "message"),
    [
        (SPEAKS, {"apply_chat_template": False}, "accepts only messages: pass --apply_chat_template"),
        (
            SPEAKS,
            {"task": "canary_exposure", "metadata": {"texts": None}},
            "gives no log-likelihoods: it supports only canary_ext",
        ),
        (
            SPEAKS,
            {"metadata": {"role": "user"}},
            "writes only the assistant's turn, but the canaries are in the user's",
        ),
        (SPEAKS, {"metadata": {"context": "Hello"}}, "context=Hello: .* receives messages, and a canary is a whole"),
        (SPEAKS, {"apply_chat_template": False, **PREFILL}, "prefill=true: is for turns of a chat: pass --apply_chat"),
        (
            named("OpenAIChatCompletion", type(SPEAKS))(lambda turns, settings: "12"),
            PREFILL,
            "prefill=true: the server of OpenAIChatCompletion cannot continue a turn: leave prefill out",
        ),
        (
            HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"), batch_size=8),
            PREFILL,
            "prefill=true: applies only to endpoints that accept only messages; with HFLM every canary's turn begins",
        ),
    ],
)
def test_what_cannot_be_is_one_line(lm: Any, settings: Any, message: str, tmp_path: Any) -> None:
    with pytest.raises((OptionError, TargetError), match=message):
        run(lm, tmp_path, **settings)


def test_pairs_are_declined(tmp_path: Any) -> None:
    for name in ("prefix", "suffix"):
        np.save(tmp_path / f"train_{name}.npy", np.full((3, 4), 5, dtype=np.uint16))
    with pytest.raises(LeakageError, match="receives only messages, so nothing can be sampled after a prefix"):
        evaluate(SPEAKS, ["suffix_extraction"], {"data": str(tmp_path), "split": "all", "tokenizer": "x"})
