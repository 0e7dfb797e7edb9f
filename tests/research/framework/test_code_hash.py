"""The hash of a study's code depends on the code that its trials import, and on nothing else."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakage_tasks.research.elmahdy.trials import run as elmahdy_run
from leakage_tasks.research.framework import code_hash
from leakage_tasks.research.framework.code_hash import normalized
from leakage_tasks.research.secret_sharer.trials import run as secret_sharer_run

FILES = {
    "trials.py": "def run(config, shared):\n    from rooms.victims.lstm import train\n    return train\n",
    "tables.py": "TABLE = 1\n",
    "victims/lstm.py": "from rooms.framework.shared import place\nimport rooms.victims.text\ntrain = 1\n",
    "victims/text.py": "TEXT = 'a'\n",
    "victims/gru.py": "train = 2\n",
    "framework/shared.py": "place = 1\n",
}

IMPORTED = ("trials.py", "victims/lstm.py", "victims/text.py")


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that replaces the packages of the papers."""
    for name, text in FILES.items():
        path = tmp_path / "rooms" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in ("", "victims", "framework"):
        (tmp_path / "rooms" / folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(code_hash, "ROOM", "rooms.")
    monkeypatch.setattr(code_hash, "EXCLUDED", "rooms.framework.")
    yield tmp_path / "rooms"
    for name in [name for name in sys.modules if name.partition(".")[0] == "rooms"]:
        del sys.modules[name]
    code_hash._hash_of.cache_clear()


def hash_now() -> str | None:
    from rooms.trials import run  # type: ignore[import-not-found]

    code_hash._hash_of.cache_clear()
    return code_hash.code_of(run)


@pytest.mark.parametrize("name", FILES)
def test_an_edit_changes_the_hash_where_trials_import_the_code(rooms: Path, name: str) -> None:
    before = hash_now()
    (rooms / name).write_text(FILES[name] + "more = 1\n")
    assert (hash_now() != before) == (name in IMPORTED)


def test_code_without_a_source_has_no_hash() -> None:
    def run() -> None:
        """A function of a notebook's cell."""

    run.__module__ = "nowhere"
    assert code_hash.code_of(run) is None


CODE = """
def score(rows, *, floor=0.5):
    kept = [row for row in rows if row > floor]
    return sorted(kept, key=lambda value: -value)
"""


@pytest.mark.parametrize(
    "edited",
    [
        CODE.replace("    kept =", '    """Return rows, the largest first."""\n    # A comment.\n\n    kept ='),
        CODE.replace("kept", "large_rows").replace("value", "row_value"),
        CODE.replace("row for row in rows if row >", "each for each in rows if each >"),
        CODE.replace(
            "sorted(kept, key=lambda value: -value)", "sorted(\n        kept,\n        key=lambda value: -value,\n    )"
        ),
        "from __future__ import annotations\n" + CODE + '"""An attribute\'s docstring."""\n',
    ],
)
def test_prose_layout_and_local_names_do_not_count(edited: str) -> None:
    plain = "from __future__ import annotations\n" + CODE if "__future__" in edited else CODE
    assert normalized(ast.parse(edited)) == normalized(ast.parse(plain))


@pytest.mark.parametrize(
    "edited",
    [
        CODE.replace("0.5", "0.6"),
        CODE.replace("row >", "row >="),
        CODE.replace("rows", "values"),
        CODE.replace("floor", "least"),
        CODE.replace("score", "rank"),
        CODE.replace("return sorted(kept", "return sorted(rows"),
        CODE.replace("-value", "-floor"),
    ],
)
def test_everything_else_counts(edited: str) -> None:
    assert normalized(ast.parse(edited)) != normalized(ast.parse(CODE))


def test_swapped_variables_count() -> None:
    first, second = (f"def f(x):\n    a, b = x\n    return {pair}" for pair in ("a - b", "b - a"))
    assert normalized(ast.parse(first)) != normalized(ast.parse(second))


def test_strings_are_code_unless_they_are_statements() -> None:
    assert normalized(ast.parse("x = 'a'")) != normalized(ast.parse("x = 'b'"))
    assert normalized(ast.parse("'a'\nx = 1")) == normalized(ast.parse("x = 1"))


def test_a_move_in_the_rest_of_the_package_does_not_count() -> None:
    old, new, other = "leakage_tasks.core.a import f", "leakage_tasks.core.b import f", "leakage_tasks.core.b import g"
    assert normalized(ast.parse(f"from {old}")) == normalized(ast.parse(f"from {new}"))
    assert normalized(ast.parse(f"from {old}")) != normalized(ast.parse(f"from {other}"))
    room = "from leakage_tasks.research.victims.{} import train"
    assert normalized(ast.parse(room.format("a"))) != normalized(ast.parse(room.format("b")))


def test_papers_have_hashes_of_their_own() -> None:
    assert None is not code_hash.code_of(elmahdy_run) != code_hash.code_of(secret_sharer_run) is not None
