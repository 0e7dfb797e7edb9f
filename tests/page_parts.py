"""Pictures of pages drawn once: most of the time of a page goes into Matplotlib's layout."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from leakage_tasks.report.page import documents, spreads, views
from leakage_tasks.report.plots.style import data_uri

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWING = ((documents, "draw_documents"), (spreads, "draw_repetitions"), (views, "draw_trade"))
DRAWN: dict[bytes, str] = {}
"""Pictures by the function that draws them and what it draws."""


@pytest.fixture(scope="module")
def kept_page_parts() -> Iterator[None]:
    """Let pages show the first picture of equal content again; tests of the plots show that it would be the same."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name in DRAWING:
            patched.setattr(module, name, partial(partial, getattr(module, name)))
            patched.setattr(module, "data_uri", _drawn)
        yield


def _drawn(draw: partial[Figure]) -> str:
    key = pickle.dumps((draw.func.__name__, draw.args, draw.keywords))
    if key not in DRAWN:
        DRAWN[key] = data_uri(draw())
    return DRAWN[key]
