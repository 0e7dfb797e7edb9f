"""The scripts of ``examples/`` do what their pages say."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.training.callback.training_runs import looks, manifest, model, trainer_of

EXAMPLES = ROOT / "examples"


def test_llama_factory_trains_with_the_callback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``run_exp`` stands in for that of ``llamafactory/train/tuner.py`` (0.9.5): it reads sys.argv, makes its own
    trainer and returns nothing."""
    made: list[Any] = []

    def run_exp(args: Any = None, callbacks: Any = None) -> None:
        assert sys.argv[1:] == ["train.yaml", "learning_rate=1e-3"]
        made.append(trainer_of(tmp_path, model(), callbacks=callbacks or []))
        made[0].train()

    for name in ("llamafactory", "llamafactory.train", "llamafactory.train.tuner"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["llamafactory.train.tuner"], "run_exp", run_exp, raising=False)
    monkeypatch.setattr(sys, "argv", ["llama_factory.py", str(manifest(tmp_path)), "train.yaml", "learning_rate=1e-3"])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "llama_factory.py"), run_name="__main__")
    assert looks(made[0])[-1]["step"] == 8
    assert (tmp_path / "exposure.png").is_file()
    assert (tmp_path / "run" / "preflight.json").is_file()


def test_whole_document_writes_a_model_and_texts_of_which_it_saw_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import stand_in

    train, seen = stand_in.train, []

    def quick(texts: list[str], epochs: int) -> Any:
        seen.extend(texts)
        return train(texts[:8], epochs=1)

    monkeypatch.setattr(stand_in, "train", quick)
    runpy.run_path(str(EXAMPLES / "whole_document.py"))["main"](tmp_path)
    books, unseen = (
        [json.loads(line)["text"] for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("books", "unseen")
    )
    assert (len(books), len(unseen)) == (2, 2)
    assert all(any(text in book[: len(book) // 2] for book in books) for text in seen)
    assert not any(text in control for text in seen for control in unseen)
    assert (tmp_path / "model" / "model.safetensors").is_file()
