"""Commands, options and names in README and the guides exist, and the guides explain all rows."""

from __future__ import annotations

import importlib
import itertools
import re
import shlex
from collections.abc import Iterator

import pytest
import typer

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.cli import build_app
from leakage_tasks.metrics import exposure, extraction
from leakage_tasks.metrics.contamination import contamination_rows
from leakage_tasks.metrics.memorization import memorization_metrics
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.tasks import label_accuracy
from leakage_tasks.tasks.suffix.task import SuffixExtraction
from tests.conftest import ROOT

PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
README = PAGES["README.md"]
GUIDES = {
    "canary_exposure": exposure.METRICS,
    "canary_extraction": extraction.METRICS,
    "contamination": list(contamination_rows(True, True)),
    "label_accuracy": label_accuracy.METRICS,
    "memorization": memorization_metrics([50], "tokens", controls=True),
    "suffix_extraction": SuffixExtraction({"task": "suffix_extraction", "optional": True}).METRICS,
}


def commands(page: str) -> Iterator[list[str]]:
    """Yield the words of every ``leakage`` command in the code blocks of ``page``."""
    for block in re.findall(r"^```\w*\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("leakage "):
                yield shlex.split(line, comments=True)


def test_every_command_and_option_of_readme_and_guides_exists() -> None:
    documented = [words for page in PAGES.values() for words in commands(page) if len(words) > 1]
    assert len(list(commands(README))) >= 4
    assert len(documented) >= 36
    app = typer.main.get_command(build_app())
    for words in documented:
        command = app
        names = list(itertools.takewhile(lambda word: not word.startswith("-"), words[1:]))
        while names and hasattr(command, "commands"):
            command = command.commands[names.pop(0)]
        shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        known = {option for parameter in shown for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, words


def test_readme_begins_with_two_targets_of_make_alone() -> None:
    first = re.search(r"^```\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert first is not None
    assert first[1].splitlines() == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w -]+):", makefile, re.MULTILINE))
    named = {name for page in PAGES.values() for name in re.findall(r"`make ([\w-]+)`", page)}
    assert named - {name for target in targets for name in target.split()} == set()


def test_imports_from_this_package_in_the_pages_exist() -> None:
    imports = re.findall(
        r"^from (leakage_tasks[\w.]*) import (\w+(?:, \w+)*)$", "\n".join(PAGES.values()), re.MULTILINE
    )
    assert len(imports) >= 5
    for module, names in imports:
        assert [name for name in names.split(", ") if not hasattr(importlib.import_module(module), name)] == []


def test_the_guide_of_attacks_names_every_attack() -> None:
    assert [name for name in ATTACKS if f"`{name}`" not in PAGES["attacks.md"]] == []


def test_the_guide_of_suffix_extraction_explains_every_column() -> None:
    text = PAGES["suffix_extraction.md"]
    request = SuffixRequest(prefix_lengths=(25,), suffix_lengths=(25,), sample_counts=(10,))
    columns = [HEADLINE, *request.confidences(compared=True, trained=True), *request.views]
    assert [name for name in columns if f"`{name}`" not in text] == []


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_explains_every_row_of_its_table(guide: str) -> None:
    text = PAGES[f"{guide}.md"]
    metrics: list[Metric] = GUIDES[guide]
    named = {metric.name for metric in metrics if "_ci_" not in metric.name}
    assert {name for name in named if f"`{name}`" not in text} == set()
