"""Plugin of axolotl that measures exposure while axolotl trains.

The configuration names it and gives the arguments of ``ExposureCallback``:

    plugins:
      - leakage_tasks.training.callback.axolotl.ExposurePlugin
    leakage:
      manifest: canaries.jsonl

Interface: ``axolotl.integrations.base.BasePlugin`` (axolotl 0.19). Only axolotl imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, get_type_hints

from axolotl.integrations.base import BasePlugin
from pydantic import ConfigDict, create_model
from transformers import Trainer

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.callback.callback import ExposureCallback

_HINTS = get_type_hints(ExposureCallback.__init__)
_FIELDS: dict[str, Any] = {
    name: (_HINTS[name], ... if argument.default is argument.empty else argument.default)
    for name, argument in signature(ExposureCallback).parameters.items()
    if name != "tokenizer"
}
ExposureOptions = create_model("ExposureOptions", __config__=ConfigDict(extra="forbid"), **_FIELDS)
"""The arguments of the callback that a configuration can hold; the tokenizer is axolotl's."""
ExposureArgs = create_model("ExposureArgs", leakage=(ExposureOptions | None, None))
"""The part of axolotl's configuration that the plugin adds."""


class ExposurePlugin(BasePlugin):
    """A plugin that attaches an ``ExposureCallback`` to axolotl's trainer."""

    def register(self, cfg: Mapping[str, Any]) -> None:
        """Raise OptionError if the configuration names the plugin without its options."""
        if not cfg.get("leakage"):
            raise OptionError(
                f"axolotl: plugin {__name__}.{type(self).__name__} has no options: add 'leakage:' with "
                "'manifest: canaries.jsonl' to the configuration"
            )

    def get_input_args(self) -> str:
        """Return the path of the class that validates the options."""
        return f"{__name__}.ExposureArgs"

    def post_trainer_create(self, cfg: Any, trainer: Trainer) -> None:
        """Attach the callback. Another configuration of the same process may lack the options."""
        if cfg.leakage:
            ExposureCallback(**cfg.leakage).attach(trainer)
