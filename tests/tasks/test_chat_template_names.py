"""``--apply_chat_template NAME``: canaries are read in the template of that name, and the results say so."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.canaries.chat import Chat
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.harness.chat_templates import template_name
from leakage_tasks.harness.plugin import install
from leakage_tasks.targets.harness.chat import template_of
from tests.chats import CHATML, chat_model, chat_tokenizer
from tests.report.saved import pairs_file
from tests.tasks.test_canary_tasks import evaluate
from tests.tasks.test_chat_endpoints import SPEAKS
from tests.tasks.test_chats import costs_of

install()
RAG = CHATML.replace("<|im_start|>", "<|im_start|>continue ").replace("<|im_end|>", " pin.<|im_end|>")
(CANARY,) = make_canaries("The pin of {unique} is {digits:2}.", 1, seed=3)


def model_of(templates: Any) -> HFLM:
    """A chat model whose tokenizer has these templates."""
    tokenizer = copy.deepcopy(chat_tokenizer("chatml"))
    tokenizer.chat_template = templates
    return HFLM(pretrained=chat_model("chatml"), tokenizer=tokenizer, batch_size=16)


def run(folder: Path, templates: Any, name: str | bool, **settings: Any) -> Any:
    """What the harness gives for the canary under ``--apply_chat_template NAME``."""
    write_manifest([CANARY], folder / "c.jsonl")
    metadata = {"canaries": str(folder / "c.jsonl")}
    return evaluate(model_of(templates), ["canary_exposure"], metadata, apply_chat_template=name, **settings)


def lead_in(template: str) -> float:
    """Bits that the secret costs more than the likeliest filling, by `transformers` on whole conversations alone."""
    tokenizer, space = copy.deepcopy(chat_tokenizer("chatml")), CANARY.space
    tokenizer.chat_template = template
    rows = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": "Please continue."}, {"role": "assistant", "content": space.fill(filling)}],
            tokenize=True,
            return_dict=False,
        )
        for filling in space.enumerate()
    ]
    costs = costs_of("chatml", rows)
    return costs[space.index(CANARY.secret)] - min(costs)


@pytest.mark.parametrize(("name", "template"), [(True, CHATML), ("default", CHATML), ("rag", RAG)])
def test_costs_are_those_in_the_template_of_that_name(name: str | bool, template: str, tmp_path: Path) -> None:
    results = run(tmp_path, {"default": CHATML, "rag": RAG}, name)
    found = finding_from_json(results["samples"]["canary_exposure"][0]["resps"][0][0])
    assert found.log_perplexity is not None
    assert found.log_perplexity - found.guesses[0].score == pytest.approx(lead_in(template), abs=1e-3)
    protocol = results["configs"]["canary_exposure"]["leakage"]["protocol"]
    assert protocol.get("chat_template") == (None if name is True else name)
    assert abs(lead_in(CHATML) - lead_in(RAG)) > 0.1
    assert template_name() is None


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(
    ("others", "name", "message"), [("default", "nope", "'nope'.*'default', 'rag'"), ("tools", True, "'rag', 'tools'")]
)
def test_an_unknown_name_and_a_missing_one_are_one_line_that_lists_those_there_are(
    tracked: bool, others: str, name: str | bool, message: str, tmp_path: Path
) -> None:
    # With a tracker, as the command has one, the harness looks for the name before the tasks do.
    tracker = {"evaluation_tracker": EvaluationTracker(output_path=str(tmp_path))} if tracked else {}
    with pytest.raises(OptionError, match=f"^--apply_chat_template: .*{message}"):
        run(tmp_path, {others: CHATML, "rag": RAG}, name, **tracker)


def test_a_name_for_a_tokenizer_of_one_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--apply_chat_template rag: the tokenizer has one chat template"):
        run(tmp_path, CHATML, "rag")


def test_another_error_of_the_harness_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="limit") as raised:
        run(tmp_path, CHATML, True, limit=1, samples={"canary_exposure": [0]})
    assert not isinstance(raised.value, OptionError)


def test_suffixes_are_drawn_in_the_template_of_that_name(tmp_path: Path) -> None:
    lm = model_of({"default": CHATML, "rag": CHATML.replace("<|im_start|>", "<|im_start|>a ")})
    metadata = {"data": str(pairs_file(tmp_path)), "samples": 2, "split": "all"}
    protocols = []
    for name in ("default", "rag"):
        before = Chat(template=name).context(template_of(lm, name)).before
        assert before.startswith("<|im_start|>a ") == (name == "rag")
        results = evaluate(lm, ["suffix_extraction"], metadata, apply_chat_template=name)
        protocols.append(results["configs"]["suffix_extraction"]["leakage"]["protocol"]["chat_template"])
    assert protocols == ["default", "rag"]


def test_a_server_that_applies_its_own_template_takes_no_name(tmp_path: Path) -> None:
    write_manifest([CANARY], tmp_path / "c.jsonl")
    metadata = {"canaries": str(tmp_path / "c.jsonl")}
    with pytest.raises(TargetError, match="--apply_chat_template rag: the server of LocalChatCompletion"):
        evaluate(SPEAKS, ["canary_extraction"], metadata, apply_chat_template="rag")
