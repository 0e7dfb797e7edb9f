"""The toy study, registered alone."""

from __future__ import annotations

import pytest

from leakage_tasks.core.registry import Registry
from leakage_tasks.research.framework import registry
from leakage_tasks.research.framework.registry import Study
from tests.research.toy import Toy, make_study


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def study(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The toy's study, the only one registered in this test."""
    monkeypatch.setattr(registry, "STUDIES", Registry("study"))
    return registry.register(make_study(toy))
