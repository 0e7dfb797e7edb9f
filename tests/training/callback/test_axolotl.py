"""The plugin in axolotl's interface: the real one if axolotl is installed, else a stand-in."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.callback.callback import ExposureCallback
from tests.training.callback import axolotl_stand_in
from tests.training.callback.training_runs import looks, manifest, model, trainer_of

MODULE = "leakage_tasks.training.callback.axolotl"
NAME = f"{MODULE}.ExposurePlugin"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The plugin, as axolotl loads it."""
    axolotl_stand_in.install(monkeypatch)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module("axolotl.integrations.base").load_plugin(NAME)
    sys.modules.pop(MODULE, None)


def config(**leakage: Any) -> dict[str, Any]:
    return {"base_model": "x", "plugins": [NAME], "leakage": leakage}


def read(plugin: Any, cfg: dict[str, Any]) -> Any:
    """The configuration as axolotl passes it on."""
    return importlib.import_module("axolotl.utils.dict").DictDefault(axolotl_stand_in.validated(plugin, cfg))


def test_training_is_watched(plugin: Any, tmp_path: Path) -> None:
    cfg = config(manifest=str(manifest(tmp_path)), every=4, budget=200)
    plugin.register(cfg)
    trainer = trainer_of(tmp_path, model())
    plugin.post_trainer_create(read(plugin, cfg), trainer)
    for callback in plugin.add_callbacks_post_trainer(read(plugin, cfg), trainer):
        trainer.add_callback(callback)
    trainer.train()
    assert [entry["step"] for entry in looks(trainer)] == [0, 4, 8]
    (callback,) = [each for each in trainer.callback_handler.callbacks if isinstance(each, ExposureCallback)]
    assert (callback.every, callback.budget, callback.share) == (4, 200, None)
    assert (tmp_path / "run" / "preflight.json").is_file()


def test_the_options_are_the_callback_s(plugin: Any) -> None:
    full = read(plugin, config(manifest="c.jsonl"))["leakage"]
    assert full["manifest"] == "c.jsonl"
    assert {"every": "epoch", "share": "auto", "budget": 2000, "strict": True}.items() <= full.items()
    assert "tokenizer" not in full


@pytest.mark.parametrize(
    ("leakage", "where"),
    [
        ({"budget": 5}, "leakage.manifest"),
        ({"manifest": "c.jsonl", "budgte": 5}, "leakage.budgte"),
        ({"manifest": "c.jsonl", "every": "week"}, "leakage.every"),
        ({"manifest": "c.jsonl", "budget": "many"}, "leakage.budget"),
    ],
)
def test_a_wrong_option_is_named_before_training(plugin: Any, leakage: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match=where):
        axolotl_stand_in.validated(plugin, config(**leakage))


def test_a_plugin_without_options_is_an_error(plugin: Any) -> None:
    with pytest.raises(OptionError, match="has no options: add 'leakage:' with 'manifest: canaries.jsonl'"):
        plugin.register({"base_model": "x", "plugins": [NAME]})


def test_another_configuration_of_the_process_is_not_watched(plugin: Any, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, model())
    plugin.post_trainer_create(read(plugin, {"base_model": "x"}), trainer)
    assert not any(isinstance(each, ExposureCallback) for each in trainer.callback_handler.callbacks)
