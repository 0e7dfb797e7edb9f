"""A browser for tests of pages, and a page of several runs in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from leakage_tasks.report.page import page
from tests.report.browsing import Shown, chromium, opened
from tests.report.pages import board, canary, pair, usual_canaries, write_run

MODELS = (("a", 0.9, 0.61), ("b", 0.2, 0.55), ("c", 0.6, 0.605), ("d", 0.7, None), ("e", 0.4, 0.57))


@pytest.fixture(autouse=True, scope="module")
def parts(kept_page_parts: None) -> None:
    """Make the parts of all pages of these tests once."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium; skips where there is none."""
    # No longer than a module: while it is driven, nothing else in the process can run an event loop.
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Five runs in one group, one without usefulness tasks, and two that stand apart, one of them hostile."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, (name, leak, acc) in enumerate(MODELS):
        useful = {} if acc is None else {"arc": acc, "hella": acc - 0.1 * leak}
        write_run(folder, f"models/{name}", usual_canaries(leak, seed), useful=useful)
    other = {"canaries": "cd" * 32}
    hostile = [canary(Shown.NASTY, rank=3)]
    write_run(folder, Shown.NASTY, hostile, model=Shown.KIND, useful={"arc": 0.5}, protocol=other)
    write_run(folder, "models/pairs", pairs=[pair(number, wrong=number % 2) for number in range(120)])
    made = board(folder)
    (folder / "board.html").write_text(page(made), encoding="utf-8")
    return Shown(made, folder / "board.html")


@pytest.fixture
def show(browser: Any, written: Shown) -> Iterator[Any]:
    """The page of :func:`written` at its usual size."""
    with opened(browser, written.path) as shown:
        yield shown
