"""Pictures of pages drawn once: half of the time of a page with figures goes into Matplotlib's layout."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from leakage_tasks.report.page import spreads, views
from leakage_tasks.report.plots.style import data_uri

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN: dict[bytes, str] = {}
"""Pictures by the function that draws them and what it draws."""


@pytest.fixture(scope="module")
def pictures_drawn_once() -> Iterator[None]:
    """Let pages show the first picture of equal content again; tests of the plots show that it would be the same."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name in ((spreads, "draw_repetitions"), (views, "draw_trade")):
            patched.setattr(module, name, partial(partial, getattr(module, name)))
            patched.setattr(module, "data_uri", _drawn)
        yield


def _drawn(draw: partial[Figure]) -> str:
    key = pickle.dumps((draw.func.__name__, draw.args, draw.keywords))
    if key not in DRAWN:
        DRAWN[key] = data_uri(draw())
    return DRAWN[key]
