"""Endpoints that take messages alone: one line that names what to use instead."""

from __future__ import annotations

import pytest
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI, OpenAIChatCompletion

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.harness.chat import check_endpoint


@pytest.mark.parametrize("kind", [LocalChatCompletion, OpenAIChatCompletion])
def test_no_canary_can_be_asked_about(kind: type) -> None:
    with pytest.raises(TargetError, match="takes messages alone .* use --model hf") as error:
        check_endpoint(kind.__new__(kind))
    assert "\n" not in str(error.value)


def test_endpoints_that_take_text_pass() -> None:
    check_endpoint(LocalCompletionsAPI.__new__(LocalCompletionsAPI))
