"""The chat template that a harness model's turns are written with."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets.harness.chat import template_of
from tests.oracles import letters

TURNS = [{"role": "user", "content": "hi"}]
NAMED = {"one": "[{{ messages[0].content }}]", "two": "<{{ messages[0].content }}>"}


def lm_of(templates: dict[str, str], **arguments: str) -> Any:
    """Return a stand-in for a harness model whose tokenizer has these templates."""
    tokenizer = copy.deepcopy(letters())
    tokenizer.chat_template = templates
    return SimpleNamespace(tokenizer=tokenizer, chat_template_args=arguments)


@pytest.mark.parametrize("templates", [NAMED, {**NAMED, "default": "no"}])
def test_a_given_template_goes_before_the_default_one(templates: dict[str, str]) -> None:
    assert template_of(lm_of(templates, chat_template="two"))(TURNS) == "<hi>"


def test_a_named_template_goes_before_a_given_one() -> None:
    assert template_of(lm_of(NAMED, chat_template="two"), "one")(TURNS) == "[hi]"


def test_several_templates_without_a_default_need_a_name() -> None:
    with pytest.raises(OptionError, match="has several chat templates and no default: name one of 'one', 'two'"):
        template_of(lm_of(NAMED))
