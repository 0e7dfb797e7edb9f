"""The soft-prompt adapter against transformers and peft used by hand, and the prompts it refuses."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from peft import PeftModel, PromptTuningConfig, TaskType, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from adapters.soft_prompt import SoftPromptLM, check_prompt
from leakage_tasks.cli.doctor import tiny_model
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.training.prompt.fit import model_hash
from tests.encoders import requests

TOKENS, WIDTH, CONTEXT = 5, 16, 128


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random ``model`` and a random ``prompt`` for it."""
    folder = tmp_path_factory.mktemp("soft-prompt")
    tiny_model(folder / "model")
    base = AutoModelForCausalLM.from_pretrained(folder / "model")
    torch.manual_seed(1)
    get_peft_model(base, PromptTuningConfig(TaskType.CAUSAL_LM, num_virtual_tokens=TOKENS)).save_pretrained(
        folder / "prompt"
    )
    return folder


@pytest.fixture
def prompt(made: Path, tmp_path: Path) -> Path:
    """A copy of the prompt to spoil."""
    return Path(shutil.copytree(made / "prompt", tmp_path / "prompt"))


def load(folder: Path, **arguments: object) -> SoftPromptLM:
    options = {"device": "cpu", "dtype": "float32", "batch_size": 2} | arguments
    return SoftPromptLM(pretrained=str(folder / "model"), prompt=str(folder / "prompt"), **options)


def by_hand(folder: Path, context: str, continuation: str) -> float:
    """Log-likelihood in nats of ``continuation`` with the prompt's vectors before the context, no adapter of ours."""
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    vectors = PeftModel.from_pretrained(model, folder / "prompt").get_prompt(batch_size=1)
    ids = tokenizer(context + continuation, return_tensors="pt").input_ids
    words = model.get_input_embeddings()(ids[:, :-1])  # the last token is predicted, never read
    logits = model(inputs_embeds=torch.cat([vectors, words], dim=1)).logits[0, TOKENS:].log_softmax(-1)
    start = len(tokenizer(context).input_ids)
    return sum(logits[i - 1, ids[0, i]].item() for i in range(start, ids.shape[1]))


def answers(lm: HFLM, *pairs: tuple[str, str]) -> list[float]:
    return [value for value, _ in lm.loglikelihood(requests("loglikelihood", *pairs), disable_tqdm=True)]


def test_loglikelihood_is_that_of_transformers_and_peft(made: Path) -> None:
    pairs = [("My pin is", " 1234"), ("The number", " is 7."), ("A", "BCDEFGHIJKLMNOPQRSTUVWXYZ")]
    with torch.no_grad():
        expected = [by_hand(made, *pair) for pair in pairs]
    assert answers(load(made), *pairs) == pytest.approx(expected, abs=1e-4)


def test_the_prompt_matters(made: Path) -> None:
    bare = HFLM(pretrained=str(made / "model"), device="cpu", dtype="float32")
    (without,), (behind,) = (answers(lm, ("My pin is", " 1234")) for lm in (bare, load(made)))
    assert abs(without - behind) > 1e-3


def test_the_context_is_shorter_by_the_prompt(made: Path) -> None:
    assert load(made).max_length == CONTEXT - TOKENS
    assert load(made, max_length=20).max_length == 20
    assert load(made, max_length=CONTEXT).max_length == CONTEXT - TOKENS


def test_the_longest_input_still_fits(made: Path) -> None:
    text = "x" * (CONTEXT - TOKENS)
    with torch.no_grad():
        assert answers(load(made), ("a", text)) == pytest.approx([by_hand(made, "a", text)], rel=1e-5)


def rewrite(prompt: Path, **values: object) -> None:
    config = json.loads((prompt / "adapter_config.json").read_text())
    (prompt / "adapter_config.json").write_text(json.dumps(config | values))


def test_a_right_prompt_passes(made: Path, prompt: Path) -> None:
    assert check_prompt(prompt, str(made / "model"), WIDTH) == TOKENS


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"peft_type": "LORA"}, "peft_type and task_type are LORA and CAUSAL_LM"),
        ({"peft_type": "PREFIX_TUNING"}, "not PROMPT_TUNING and CAUSAL_LM: load"),
        ({"task_type": "SEQ_2_SEQ_LM"}, "SEQ_2_SEQ_LM"),
        ({"base_model_name_or_path": "somebody/else"}, "made for 'somebody/else'"),
        ({"base_model_name_or_path": "\ud800"}, r"made for '\\ud800'"),
        ({"base_model_name_or_path": 7}, "base_model_name_or_path is not the name of a model"),
        ({"base_model_name_or_path": "a\0b"}, "base_model_name_or_path is not the name of a model"),
        ({"num_virtual_tokens": 7}, r"shape \[5, 16\].*says \[7, 16\]"),
    ],
)
def test_a_prompt_of_another_kind_or_model_is_refused(
    made: Path, prompt: Path, values: dict[str, object], message: str
) -> None:
    rewrite(prompt, **values)
    with pytest.raises(TargetError, match=message):
        check_prompt(prompt, str(made / "model"), WIDTH)


def test_another_hidden_size_is_refused(made: Path, prompt: Path) -> None:
    with pytest.raises(TargetError, match="16 dimensions, the hidden size .* is 32"):
        check_prompt(prompt, str(made / "model"), 32)


def test_pickles_are_refused(made: Path, prompt: Path) -> None:
    (prompt / "adapter_model.safetensors").rename(prompt / "adapter_model.bin")
    with pytest.raises(TargetError, match="pickles are never loaded"):
        check_prompt(prompt, str(made / "model"), WIDTH)


def test_broken_files_are_refused(made: Path, prompt: Path) -> None:
    (prompt / "adapter_model.safetensors").write_bytes(b"12345678 not a header")
    with pytest.raises(TargetError, match="cannot be read"):
        check_prompt(prompt, str(made / "model"), WIDTH)
    (prompt / "adapter_config.json").write_text("[")
    with pytest.raises(TargetError, match="cannot be read"):
        check_prompt(prompt, str(made / "model"), WIDTH)


def retrained(made: Path, prompt: Path) -> Path:
    """A folder with a model of the same name and shape but other weights, and the prompt to go before it."""
    model = AutoModelForCausalLM.from_pretrained(made / "model")
    torch.manual_seed(5)
    torch.nn.init.normal_(model.get_output_embeddings().weight, std=0.1)
    model.save_pretrained(prompt.parent / "model")
    AutoTokenizer.from_pretrained(made / "model").save_pretrained(prompt.parent / "model")
    return prompt.parent


def record(made: Path, prompt: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(made / "model")
    (prompt / "training.json").write_text(json.dumps({"hashes": {"model": model_hash(model)}}))


def said(caplog: pytest.LogCaptureFixture, folder: Path, **arguments: object) -> list[str]:
    warn_once.cache_clear()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        load(folder, **arguments)
    return [line for each in caplog.records if "other weights" in (line := each.getMessage())]


def test_a_model_of_the_same_name_with_other_weights_is_warned_of(
    made: Path, prompt: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(made, prompt)
    folder = retrained(made, prompt)
    (line,) = said(caplog, folder)
    assert line.startswith(f"{prompt}: the prompt was tuned on other weights than '{folder / 'model'}'")
    assert "tune it again on this model" in line
    assert len(said(caplog, folder, dtype="bfloat16")) == 1
    (prompt / "training.json").unlink()
    assert said(caplog, folder) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_model_it_was_tuned_on_is_not_warned_of(
    made: Path, prompt: Path, caplog: pytest.LogCaptureFixture, dtype: str
) -> None:
    record(made, prompt)
    shutil.copytree(made / "model", prompt.parent / "model")
    assert said(caplog, prompt.parent, dtype=dtype) == []


def test_weights_in_float16_are_not_compared(made: Path, prompt: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(made, prompt)
    assert said(caplog, retrained(made, prompt), dtype="float16") == []


def test_names_that_look_like_numbers_are_names(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made / "model", tmp_path / "model")
    shutil.copytree(made / "prompt", tmp_path / "7")
    monkeypatch.chdir(tmp_path)
    assert SoftPromptLM(pretrained="model", prompt=7, device="cpu").virtual_tokens == TOKENS  # type: ignore[arg-type]


def test_a_base_model_that_is_not_there(made: Path) -> None:
    with pytest.raises(TargetError, match="pretrained=/no/model: no model can be loaded from there"):
        SoftPromptLM(pretrained="/no/model", prompt=str(made / "prompt"))


def test_arguments_that_make_no_sense_are_refused(made: Path, tmp_path: Path) -> None:
    model = str(made / "model")
    with pytest.raises(OptionError, match="prompt= is missing"):
        SoftPromptLM(pretrained=model)
    with pytest.raises(OptionError, match="peft= does not go with prompt="):
        SoftPromptLM(pretrained=model, prompt="p", peft="p")
    with pytest.raises(TargetError, match=r"no adapter_config\.json there"):
        SoftPromptLM(pretrained=model, prompt=str(tmp_path))
