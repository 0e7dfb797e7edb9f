"""Commands whose input is written to while they read it: one line, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.defences.sanitize import sanitize
from leakage_tasks.report.publish import write_board, write_card, write_report
from tests.conftest import Leakage
from tests.core.test_stable_inputs import appended, cut, replaced
from tests.report.made import STAMP, leaking, results

CHANGES = pytest.mark.parametrize("change", [appended, replaced, cut])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Text with a card number in it, and a manifest beside."""
    path = tmp_path / "train.txt"
    path.write_text("a line\nmy card is 4111 1111 1111 1111\n" * 3)
    write_manifest(make_canaries("The pin is {digits:4}.", 1, seed=1), tmp_path / "canaries.jsonl")
    return path


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Have something happen before the first call of a function."""

    def before(name: str, happens: Callable[[], None]) -> None:
        place, _, own = name.rpartition(".")
        module = import_module(place)
        usual = getattr(module, own)
        left = [happens]

        def changed(*arguments: Any, **rest: Any) -> Any:
            if left:
                left.pop()()
            return usual(*arguments, **rest)

        monkeypatch.setattr(module, own, changed)

    return before


def check(outcome: tuple[int, str, str], source: Path, folder: Path, before: Mapping[Path, int]) -> None:
    code, _, err = outcome
    assert code == 2
    assert err == f"leakage: {source}: changed while it was read: run again when nothing writes to it\n"
    assert set(folder.iterdir()) == set(before)


def listed(folder: Path) -> dict[Path, int]:
    return dict.fromkeys(folder.iterdir(), 0)


@CHANGES
def test_plant(leakage: Leakage, meanwhile: Any, text: Path, change: Callable[[Path], None]) -> None:
    meanwhile("leakage_tasks.canaries.shard_work.sha256_of", lambda: change(text))
    before = listed(text.parent)
    outcome = leakage("plant", text.parent / "canaries.jsonl", text, "-o", text.parent / "planted.txt")
    check(outcome, text, text.parent, before)


@CHANGES
def test_verify(leakage: Leakage, meanwhile: Any, text: Path, change: Callable[[Path], None]) -> None:
    planted, manifest = text.with_name("planted.txt"), text.with_name("canaries.jsonl")
    assert leakage("plant", manifest, text, "-o", planted)[0] == 0
    meanwhile("leakage_tasks.canaries.occurrences.sha256_of", lambda: change(planted))
    check(leakage("verify", planted, manifest), planted, text.parent, listed(text.parent))


@CHANGES
def test_canaries_of_a_text(leakage: Leakage, meanwhile: Any, text: Path, change: Callable[[Path], None]) -> None:
    meanwhile("leakage_tasks.canaries.natural_secrets.find_secrets", lambda: change(text))
    before = listed(text.parent)
    check(leakage("canaries", "--from-text", text, "-o", text.parent / "found.jsonl"), text, text.parent, before)


@CHANGES
def test_sanitize_while_models_train(text: Path, change: Callable[[Path], None]) -> None:
    def fit(texts: Any, seed: int) -> Any:
        if not seed:
            change(text)
        return lambda asked: [0.0 for _ in asked]

    before = listed(text.parent)
    with pytest.raises(LeakageError, match="changed while it was read"):
        sanitize(text, text.with_name("clean.txt"), drop=1, fit=fit)
    assert listed(text.parent) == before


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """A results file."""
    path = tmp_path / f"results_{STAMP}.json"
    path.write_text(json.dumps(results(leaking())))
    return path


@CHANGES
def test_leaderboard(leakage: Leakage, meanwhile: Any, result: Path, change: Callable[[Path], None]) -> None:
    meanwhile("leakage_tasks.report.board.board.make_board", lambda: change(result))
    before = listed(result.parent)
    check(leakage("leaderboard", result, "-o", result.parent / "board.md"), result, result.parent, before)


@CHANGES
def test_card_keeps_what_someone_else_wrote(
    leakage: Leakage, meanwhile: Any, result: Path, change: Callable[[Path], None]
) -> None:
    card = result.parent / "README.md"
    card.write_text("# Mine\n")
    meanwhile("leakage_tasks.report.card.card.make_card", lambda: change(card))
    check(leakage("card", result, "--card", card), card, result.parent, listed(result.parent))


@CHANGES
@pytest.mark.parametrize(
    ("write", "before", "name"),
    [
        (write_board, "leakage_tasks.report.publish.make_board", "board.html"),
        (write_card, "leakage_tasks.report.publish.make_card", "README.md"),
        (write_report, "leakage_tasks.report.evidence.gather.gather", "report.html"),
    ],
)
def test_reports_from_python(
    meanwhile: Any,
    result: Path,
    change: Callable[[Path], None],
    write: Callable[[Path, Path], None],
    before: str,
    name: str,
) -> None:
    meanwhile(before, lambda: change(result))
    there = listed(result.parent)
    with pytest.raises(LeakageError, match="changed while it was read"):
        write(result, result.parent / name)
    assert listed(result.parent) == there


@CHANGES
def test_a_card_from_python_keeps_what_someone_else_wrote(
    meanwhile: Any, result: Path, change: Callable[[Path], None]
) -> None:
    card = result.parent / "README.md"
    card.write_text("# Mine\n" * 9)
    meanwhile("leakage_tasks.report.publish.make_card", lambda: change(card))
    with pytest.raises(LeakageError, match=r"README\.md: changed while it was read"):
        write_card(result, card)
    assert "lm-eval-leakage" not in card.read_text()
