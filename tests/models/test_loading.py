"""The one loader of models, tokenizers and configurations: what it refuses, in which words, and what it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM

from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.models import loading
from leakage_tasks.models.loading import load_causal, read_config, read_model, read_tokenizer, resolve_device
from tests.encoders import save_base


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return save_base(tmp_path / "base")


def test_a_saved_model_is_read_with_its_tokenizer_and_configuration(base: Path) -> None:
    model, missing = read_model(AutoModelForMaskedLM, base)
    assert (missing, model.config.to_dict()) == ([], read_config(base).to_dict())
    assert 5 < len(read_tokenizer(base)) <= model.config.vocab_size


READS: dict[str, Callable[..., Any]] = {
    "model": lambda name, **more: read_model(AutoModelForMaskedLM, name, **more),
    "tokenizer": read_tokenizer,
    "configuration": read_config,
}


@pytest.mark.parametrize("what", READS)
def test_what_is_not_there_is_one_line_with_folder_and_remedy(what: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="give the folder that save_pretrained wrote or a hub name") as refused:
        READS[what](tmp_path / "none")
    assert str(refused.value).startswith(str(tmp_path / "none"))
    with pytest.raises(LeakageError, match=r"^encoder=x \(.+\): save it$"):
        READS[what](tmp_path / "none", failure=lambda reason: LeakageError(f"encoder=x ({reason}): save it"))


def test_a_file_of_weights_that_holds_none_of_them_is_refused(base: Path) -> None:
    torch.save({}, base / "pytorch_model.bin")
    (base / "model.safetensors").unlink()
    with pytest.raises(
        TargetError, match=r"no model can be loaded from there \(its files contain no weight of this model\)"
    ):
        read_model(AutoModelForMaskedLM, base)


def test_a_tokenizer_that_is_made_up_is_refused_where_none_is_asked_for(base: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (base / name).unlink()
    with pytest.raises(TargetError, match="its files are missing.*name one with tokenizer="):
        read_tokenizer(base)
    assert len(read_tokenizer(base, bare=True)) == 5


@pytest.mark.parametrize("what", ["model", "configuration"])
def test_code_in_a_folder_is_not_run(what: str, base: Path, tmp_path: Path) -> None:
    (base / "own.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'sprung')!r})\n")
    own = dict.fromkeys(("AutoConfig", "AutoModelForMaskedLM"), "own.Own")
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((base / name).read_text())
        settings |= {"auto_map": own | {"AutoTokenizer": ["own.Own", None]}, "model_type": "own"}
        (base / name).write_text(json.dumps(settings))
    with pytest.raises(TargetError, match="contains custom code"):
        READS[what](base)
    assert not (tmp_path / "sprung").exists()


def test_a_causal_model_that_lacks_weights_or_a_device_is_refused(base: Path) -> None:
    with pytest.raises(OptionError, match="dtype='float8'"):
        load_causal(str(base), dtype="float8")
    with pytest.raises(OptionError, match="device='nowhere'"):
        load_causal(str(base), device="nowhere")


def test_what_computes_in_double_precision_takes_no_device_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    assert resolve_device("auto") == torch.device("mps")
    assert resolve_device("auto", "a tagger") == torch.device("cpu")
    monkeypatch.setattr(loading, "WITHOUT_DOUBLE", {"cpu"})
    with pytest.raises(OptionError, match="device='cpu': has no double precision, in which a tagger computes: use"):
        resolve_device("cpu", "a tagger")
