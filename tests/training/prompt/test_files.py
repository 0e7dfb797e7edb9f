"""A tuned prompt's folder: what PEFT, the harness and our adapter make of it, what it must not replace; checkpoints."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import save as serialized

from adapters.soft_prompt import SoftPromptLM, check_prompt
from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.pairs import Pair
from leakage_tasks.training.prompt.files import (
    Progress,
    PromptEpoch,
    PromptLoss,
    TunedPrompt,
    load_checkpoint,
    save_checkpoint,
)
from leakage_tasks.training.prompt.settings import PromptSettings
from leakage_tasks.training.prompt.tuning import tune_prompt
from tests.training.prompt.prompt_oracle import VOCABULARY, WIDTH, make_model, make_pairs, pair_costs

SETTINGS = PromptSettings(length=3, epochs=1, batch_size=4, learning_rate=0.1)
LETTERS = char_tokenizer([chr(97 + place) for place in range(VOCABULARY - 2)])


def tuned(model: Any) -> TunedPrompt:
    return tune_prompt(model, make_pairs(8), make_pairs(4, 1), SETTINGS, progress=False)


@pytest.fixture(scope="module", params=["gpt2", "opt"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, TunedPrompt]:
    """A folder with ``model`` and a ``prompt`` tuned for it, and both in memory."""
    folder, model = tmp_path_factory.mktemp("prompt"), make_model(request.param)
    model.save_pretrained(folder / "model")
    LETTERS.save_pretrained(folder / "model")
    prompt = tuned(model)
    prompt.save(folder / "prompt", str(folder / "model"))
    return folder, model, prompt


def loglikelihood(lm: Any, context: str, continuation: str) -> float:
    from leakage_tasks.harness.generation import request

    request = request("loglikelihood", {}, (context, continuation), 0)
    ((value, _),) = lm.loglikelihood([request], disable_tqdm=True)
    return value


def test_our_adapter_accepts_it(made: tuple[Path, Any, TunedPrompt]) -> None:
    folder, _, _ = made
    assert check_prompt(folder / "prompt", str(folder / "model"), WIDTH) == SETTINGS.length


def test_peft_reads_the_very_vectors(made: tuple[Path, Any, TunedPrompt]) -> None:
    folder, _, prompt = made
    read = PeftModel.from_pretrained(make_model(folder_kind(folder)), folder / "prompt").get_prompt(batch_size=1)
    assert torch.equal(read[0].detach(), prompt.prompt)


def folder_kind(folder: Path) -> str:
    return json.loads((folder / "model" / "config.json").read_text())["model_type"]


@pytest.mark.parametrize("name", ["hf", "soft-prompt"])
def test_the_harness_gives_the_log_likelihood_computed_by_hand(made: tuple[Path, Any, TunedPrompt], name: str) -> None:
    from lm_eval.models.huggingface import HFLM

    folder, model, prompt = made
    paths = {"pretrained": str(folder / "model"), "device": "cpu", "dtype": "float32"}
    place = str(folder / "prompt")
    lm = HFLM(peft=place, **paths) if name == "hf" else SoftPromptLM(prompt=place, **paths)
    texts = ("abcab", "cdefg")
    pair = Pair(0, *(tuple(LETTERS(text)["input_ids"]) for text in texts))
    with torch.no_grad():
        expected = -float(pair_costs(model, prompt.prompt, pair).sum())
    assert loglikelihood(lm, *texts) == pytest.approx(expected, abs=1e-4)


def test_the_record_says_how_it_was_made(made: tuple[Path, Any, TunedPrompt]) -> None:
    from leakage_tasks.pairs.source import pairs_hash

    folder, _, prompt = made
    record = json.loads((folder / "prompt" / "training.json").read_text())
    assert record["settings"]["alpha"] == 0.7
    assert record["dtype"] == "float32"
    assert record["hashes"]["training"] == pairs_hash(make_pairs(8))
    assert record["losses"][0]["validation"]["mle"] == pytest.approx(prompt.losses[0].validation.mle)
    assert math.isfinite(record["seconds"])
    assert sorted(each.name for each in (folder / "prompt").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "training.json",
    ]


def test_a_base_in_a_folder_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    tuned(make_model()).save("p", "base")
    config = json.loads((tmp_path / "p" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "base")
    assert json.loads((tmp_path / "p" / "training.json").read_text())["base_model"] == str(tmp_path / "base")


def test_an_earlier_prompt_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    prompt = tuned(make_model())
    prompt.save(tmp_path / "p", "base")
    prompt.save(tmp_path / "p", "other")
    assert json.loads((tmp_path / "p" / "training.json").read_text())["base_model"] == "other"
    (tmp_path / "p" / "notes.txt").write_text("mine")
    with pytest.raises(OptionError, match="contains other files than a prompt"):
        prompt.save(tmp_path / "p", "base")
    assert (tmp_path / "p" / "notes.txt").read_text() == "mine"


def test_places_a_prompt_cannot_take_are_refused(tmp_path: Path) -> None:
    prompt = tuned(make_model())
    (tmp_path / "file").write_text("mine")
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    for place, message in (("file", "is a file"), ("adapter", "other files"), ("no/such", "create that folder first")):
        with pytest.raises(OptionError, match=message):
            prompt.save(tmp_path / place, "base")
    assert (tmp_path / "file").read_text() == "mine"


SHORT = PromptSettings(length=3, epochs=1, batch_size=4)
RUN = {"settings": {"epochs": 2, "alpha": 0.7}, "model": "m", "training": "t", "validation": "v"}


def progress() -> Progress:
    losses = [
        PromptEpoch(n, PromptLoss(1.5, 2.5, total), PromptLoss(1 / 3, 2.0, total)) for n, total in ((1, 3), (2, 3.5))
    ]
    optimiser = {"step": torch.tensor(4.0), "exp_avg": torch.rand(3, 2), "exp_avg_sq": torch.rand(3, 2)}
    return Progress(torch.rand(3, 2), torch.rand(3, 2), optimiser, losses)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = progress()
    save_checkpoint(tmp_path / "c", written, RUN)
    read = load_checkpoint(tmp_path / "c", RUN)
    assert torch.equal(read.prompt, written.prompt)
    assert torch.equal(read.best, written.best)
    assert read.optimiser.keys() == written.optimiser.keys()
    assert all(torch.equal(read.optimiser[name], tensor) for name, tensor in written.optimiser.items())
    assert read.epochs == written.epochs
    assert read.best_epoch == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"settings": {"epochs": 3, "alpha": 0.7}}, "a run with epochs=2, not 3: resume with"),
        ({"settings": {"epochs": 2, "alpha": 0.0}}, "alpha=0.7, not 0.0"),
        ({"model": "n"}, "another model"),
        ({"training": "u"}, "another training"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    save_checkpoint(tmp_path / "c", progress(), RUN)
    with pytest.raises(OptionError, match=message):
        load_checkpoint(tmp_path / "c", RUN | other)


@pytest.mark.parametrize(
    "content", [b"", b"12345678 no header", pickle.dumps({"prompt": 1}), serialized({"prompt": torch.rand(2, 2)})]
)
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(OptionError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "c", RUN)


def run(path: Path, *, model: Any = None, seed: int = 1, resume: bool = False, **changes: Any) -> None:
    model, settings = model or make_model(), replace(SHORT, **changes)
    options: dict[str, Any] = {"checkpoint": path, "resume": resume, "progress": False}
    tune_prompt(model, make_pairs(8, seed), make_pairs(4, 9), settings, **options)


def test_resuming_takes_the_same_settings_pairs_and_weights(tmp_path: Path) -> None:
    path = tmp_path / "c"
    run(path)
    for others, message in (
        ({"seed": 2}, "another training"),
        ({"alpha": 0.5}, "alpha=0.7, not 0.5"),
        ({"init_tokens": (1, 2)}, r"init_tokens=\[\], not \[1, 2\]"),
        ({"model": make_model(seed=1)}, "another model"),
        ({"model": make_model().bfloat16()}, "another dtype"),
    ):
        with pytest.raises(OptionError, match=message):
            run(path, resume=True, **others)
    run(path, resume=True)


def test_neither_a_missing_checkpoint_nor_one_in_the_way_is_passed_over(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no checkpoint to resume from: start a new run"):
        run(tmp_path / "c", resume=True)
    run(tmp_path / "c")
    with pytest.raises(OptionError, match="contains an interrupted run: continue with --resume"):
        run(tmp_path / "c")
