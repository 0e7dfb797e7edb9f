"""One word, one thing: no two classes that others import have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.conftest import ROOT

EXEMPT = {"HarnessTask"}
"""One thing said once for each generation of the harness, of which one alone is ever imported."""


@pytest.mark.slow
def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for room in ("leakage_tasks", "adapters"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 300
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in EXEMPT} == {}
