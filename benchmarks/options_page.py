"""Generator of docs/options.md, the tables of all options, from the options' own declarations.

``python -m benchmarks.options_page`` (or ``make options``) writes the page; ``-o FILE`` writes it to another file.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks import ROOT
from leakage_tasks.attacks.registry import ATTACKS
from leakage_tasks.core.option import Option
from leakage_tasks.harness.places import our_models
from leakage_tasks.tasks.options import TASKS

PAGE = ROOT / "docs" / "options.md"
INTRODUCTION = """\
# Options

Look up an option: tables of all options of tasks and attacks, which go into `--metadata`, and of this package's models,
which go into `--model_args`. [Attacks](attacks.md) explains which attack to choose and how options reach a task.

```
lm_eval --model hf --model_args pretrained=./mine --tasks canary_extraction \\
        --metadata canaries=canaries.jsonl,attack=beam,width=100
leakage options beam    # the options of one attack, task or model, in the terminal
```

Programs that pass no `--metadata` can set default options in
[`LM_EVAL_LEAKAGE_METADATA`](installing.md#default-metadata).

`make options` generates this page from the declarations in the code. A dash marks an option without a default. Write a
list of whole numbers with colons: `10:20:30`.
"""
KINDS = {
    list: "whole numbers",
    object: "text",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
}
Declarations = Mapping[str, Option] | Iterable[Option]


def options_page() -> str:
    """Return the page."""
    attacks = sorted(ATTACKS.without_plugins().values(), key=lambda attack: attack.name)
    models = {entry.name: getattr(entry.load(), "OPTIONS", ()) for entry in our_models()}
    parts = [INTRODUCTION, "## Tasks", "", "Options of `--metadata`, for all tasks or under the name of one.", ""]
    parts += _table("task", {name: TASKS[name] for name in sorted(TASKS.without_plugins())})
    for goal in sorted({attack.goal for attack in attacks}):
        parts += ["", f"## Attacks of canary_{goal}", ""]
        parts += _section({attack.name: attack.options for attack in attacks if attack.goal == goal})
    parts += ["", "## Models", "", "Options of `--model_args`.", "", *_table("model", dict(sorted(models.items())))]
    return "\n".join(parts) + "\n"


def _section(attacks: Mapping[str, Declarations]) -> Iterator[str]:
    plain = [name for name, declarations in attacks.items() if not _listed(declarations)]
    if plain:
        yield f"Without options of their own: {', '.join(f'`{name}`' for name in plain)}."
        yield ""
    yield from _table("attack", attacks)


def _table(kind: str, owners: Mapping[str, Declarations]) -> Iterator[str]:
    """Yield the lines of one table; a row holds an option that several owners declare identically."""
    rows: dict[Option, list[str]] = {}
    for owner, declarations in owners.items():
        for option in _listed(declarations):
            rows.setdefault(option, []).append(owner)
    yield f"| option | {kind} | values | default | meaning |"
    yield "|---|---|---|---|---|"
    for option, names in rows.items():
        owned_by = ", ".join(f"`{name}`" for name in names)
        yield f"| `{option.name}` | {owned_by} | {_values(option)} | {_default(option)} | {_prose(option.help)} |"


def _listed(declarations: Declarations) -> list[Option]:
    return list(declarations.values() if isinstance(declarations, Mapping) else declarations)


def _values(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    bounds = [f"{option.minimum:g} or more"] if option.minimum is not None else []
    bounds += [f"{option.maximum:g} or less"] if option.maximum is not None else []
    return ", ".join([KINDS[option.type], *bounds])


def _default(option: Option) -> str:
    if option.required:
        return "required"
    if option.usual:
        return _prose(option.usual)
    return "–" if option.default in (None, ()) else f"`{str(option.default).lower()}`"


def _prose(text: str) -> str:
    """Return ``text`` for a table's cell, with names and settings such as ``signal=calibrated`` as code."""
    marked = re.sub(r"(?<![^\s(])([^\s(]*(?:[=_*<]|--)[^\s]*?)([,;:.)]*)(?=\s|$)", r"`\1`\2", text)
    return marked.replace("|", "\\|")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    parser.parse_args().output.write_text(options_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
