"""The toy study, registered alone; equal corpora of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from leakage_tasks.core.registry import Registry
from leakage_tasks.research.framework import registry
from leakage_tasks.research.framework.registry import Study
from leakage_tasks.research.victims import pair_corpus, pair_lm
from tests.research.toy import Toy, make_study

OWN_PAIRS = cache(pair_corpus.own_pairs)


@pytest.fixture(autouse=True, scope="module")
def corpora() -> Iterator[None]:
    """Make the corpus of equal recipes once: to learn its vocabulary takes most of a second."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pair_lm, "own_pairs", OWN_PAIRS)
        yield


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def study(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The toy's study, the only one registered in this test."""
    monkeypatch.setattr(registry, "STUDIES", Registry("study"))
    return registry.register(make_study(toy))
