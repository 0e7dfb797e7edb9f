"""The part of axolotl that calls plugins, for machines without axolotl.

Signatures and order of calls are those of axolotl 0.19: ``axolotl/integrations/base.py`` (``BasePlugin``,
``PluginManager``), ``axolotl/integrations/config.py`` (``merge_input_args``) and ``axolotl/utils/dict.py``.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel


class BasePlugin:
    """The methods that a plugin may have."""

    def __init__(self) -> None: ...

    def register(self, cfg: dict[str, Any]) -> None: ...

    def get_input_args(self) -> str | None: ...

    def post_trainer_create(self, cfg: Any, trainer: Any) -> None: ...

    def add_callbacks_post_trainer(self, cfg: Any, trainer: Any) -> list[Any]:
        return []


class DictDefault(dict[str, Any]):
    """A dictionary with its keys as attributes, None for the ones it lacks."""

    def __getattr__(self, name: str) -> Any:
        value = self.get(name)
        return DictDefault(value) if type(value) is dict else value


def load_plugin(name: str) -> Any:
    module, _, kind = name.rpartition(".")
    return getattr(importlib.import_module(module), kind)()


def install(patch: pytest.MonkeyPatch) -> None:
    """Put the stand-in where ``import axolotl`` looks, unless axolotl is installed."""
    if find_spec("axolotl") is not None:
        return
    contents = {"integrations.base": (BasePlugin, load_plugin), "utils.dict": (DictDefault,)}
    for name in ("axolotl", "axolotl.integrations", "axolotl.utils"):
        patch.setitem(sys.modules, name, ModuleType(name))
    for name, members in contents.items():
        made = ModuleType(f"axolotl.{name}")
        for member in members:
            setattr(made, member.__name__, member)
        patch.setitem(sys.modules, f"axolotl.{name}", made)


def validated(plugin: Any, cfg: dict[str, Any]) -> dict[str, Any]:
    """What axolotl makes of a configuration: its own class, with that of the plugin as a parent, without None."""
    module, _, kind = str(plugin.get_input_args()).rpartition(".")
    arguments = getattr(importlib.import_module(module), kind)

    class AxolotlInputConfigBase(BaseModel):
        base_model: str
        plugins: list[str] | None = None

    class AxolotlInputConfig(AxolotlInputConfigBase, arguments):  # type: ignore[misc, valid-type]
        pass

    return dict(AxolotlInputConfig.model_validate(cfg).model_dump(exclude_none=True))
