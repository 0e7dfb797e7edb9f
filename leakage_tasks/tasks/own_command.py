"""The command line of a run, stored in its results file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakage_tasks.core.command_words import masked_values
from leakage_tasks.harness.default_metadata import command_with_defaults


def own_command() -> list[str]:
    """Return the arguments of ``lm_eval`` with passwords and keys hidden.

    The list is empty outside the main process of ``lm_eval``. Default metadata from the environment is written into
    ``--metadata``.
    """
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.stem
    if name not in ("lm_eval", "lm-eval") or os.environ.get("RANK", "0") != "0":
        return []
    # The harness adds an optional word ``run``.
    return list(_masked(command_with_defaults(sys.argv[2 if sys.argv[1:2] == ["run"] else 1 :])))


def _masked(words: Sequence[str]) -> Iterator[str]:
    option = ""
    for word in words:
        if word.startswith("--"):
            option, sign, value = word.partition("=")
            yield f"{option}{sign}{masked_values(value, option.lstrip('-'))}"
        else:
            yield masked_values(word, option.lstrip("-"))
