"""Names by a recogniser with presidio's interface: a stand-in that knows a list of names.

presidio-analyzer needs a language model of some 400 MB, which the tests do not download.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

from leakage_tasks.canaries.detect import find_secrets
from leakage_tasks.canaries.kinds import names
from leakage_tasks.canaries.natural import Passage, natural_canaries
from leakage_tasks.core.errors import OptionError

FIRST = ["Ann", "Bob", "Cid", "Dora", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon"]
LAST = ["Abel", "Bond", "Cole", "Dale", "East", "Ford", "Gray", "Hill", "Ives", "Jung"]
PEOPLE = [f"{first} {last}" for first, last in zip(FIRST, LAST, strict=True)]


@dataclass
class Result:
    """The fields of presidio's RecognizerResult."""

    entity_type: str
    start: int
    end: int
    score: float = 0.85


class Engine:
    """The public interface of presidio's AnalyzerEngine."""

    def analyze(self, text: str, language: str, entities: list[str]) -> list[Result]:
        assert (language, entities) == ("en", ["PERSON", "LOCATION"])
        assert len(text) <= names.LONGEST_PIECE
        people = [Result("PERSON", *found.span()) for found in re.finditer("|".join(PEOPLE), text)]
        return [Result("LOCATION", *found.span()) for found in re.finditer("Paris ?", text)] + people


@pytest.fixture(autouse=True)
def presidio(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("presidio_analyzer")
    module.AnalyzerEngine = Engine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "presidio_analyzer", module)
    names._analyzer.cache_clear()
    yield module
    names._analyzer.cache_clear()


def test_names_and_places_are_found_in_order_and_only_on_request() -> None:
    text = "Ann Abel met bob@example.org in Paris before Bob Bond."
    found = [(each.kind, text[each.start : each.end]) for each in find_secrets(text, ["person", "place", "email"])]
    assert found == [("person", "Ann Abel"), ("email", "bob@example.org"), ("place", "Paris"), ("person", "Bob Bond")]
    assert [each.kind for each in find_secrets(text)] == ["email"]


def test_long_texts_are_read_in_pieces() -> None:
    text = "word " * (names.LONGEST_PIECE // 5) + "Ann Abel"
    assert [each.start for each in find_secrets(text, ["person"])] == [len(text) - 8]


def test_the_space_of_names_is_the_words_of_the_corpus() -> None:
    text = "".join(f"Dear {person},\n" for person in [*PEOPLE, "Ann Abel"])
    canaries = natural_canaries([Passage(text)], detect=["person"], controls=2)
    planted = [canary for canary in canaries if canary.planted]
    assert [canary.repetitions for canary in planted] == [2] + [1] * 9
    assert {canary.template for canary in canaries} == {"Dear {person_first} {person_rest}"}
    assert planted[0].space.size == 10 * 10
    assert planted[0].uniform is False
    controls = {canary.text.removeprefix("Dear ") for canary in canaries if not canary.planted}
    assert len(controls) == 20
    assert not controls & {*PEOPLE}
    assert all(name.split()[0] in FIRST and name.split()[1] in LAST for name in controls)


def test_too_few_names_have_no_space() -> None:
    with (
        pytest.warns(UserWarning, match="left out 1 secret whose space is not known: 1 person among too few names"),
        pytest.raises(OptionError, match="no secret of kind person was found"),
    ):
        natural_canaries([Passage("Dear Ann Abel")], detect=["person"])


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(OptionError, match=r"--detect person, place needs presidio-analyzer: pip install"):
        find_secrets("Ann Abel", ["person"])


def test_a_missing_language_model_is_one_line(monkeypatch: pytest.MonkeyPatch, presidio: ModuleType) -> None:
    def broken() -> Engine:
        raise SystemExit("no model\nmore")

    monkeypatch.setattr(presidio, "AnalyzerEngine", broken)
    with pytest.raises(OptionError, match=r"cannot be used \(no model\): install its spaCy model"):
        find_secrets("Ann Abel", ["person"])
