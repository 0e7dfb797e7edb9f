"""Special and added tokens around the slots are ordinary parts of a path, whatever white space they take."""

from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken

from benchmarks.compatibility.tokenizers import tokenizer
from leakage_tasks.canaries import parse_template, word_list
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens import fixed_ends
from leakage_tasks.targets.tokens import token_paths as layout
from leakage_tasks.targets.tokens.automaton import AutomatonPaths
from leakage_tasks.targets.tokens.token_paths import lay_out
from leakage_tasks.targets.tokens.tries import Tries
from leakage_tasks.targets.tokens.vocabulary import token_pieces
from tests.targets.tokens.test_token_paths import all_fillings, encoder

KINDS = ["digits merged", "single digits", "Llama 3", "byte fallback", "Gemma", "Unigram", "characters"]
TEMPLATES = [
    "<|start|>the house<|end|>\n<|start|>the pin is {digits:2}.<|end|>\n<|start|>",
    "<|start|>{digits:2} <|end|>  x",
    "<|start|>  the pin is {digits:1} {digits:1}<|end|>",
]
FLAGS: list[dict[str, bool]] = [
    {"special": True},
    {"special": True, "rstrip": True},
    {"special": True, "lstrip": True},
    {"special": False, "normalized": True},
    {"special": False, "normalized": False, "lstrip": True, "rstrip": True},
]


def with_turns(kind: str, **flags: bool) -> Any:
    """A tokenizer with a token that begins turns and one that ends them."""
    made = tokenizer(kind)
    turns = [AddedToken(name, **flags) for name in ("<|start|>", "<|end|>")]
    made.add_tokens(turns, special_tokens=flags["special"])
    return made


def walked(made: Any, template: str, monkeypatch: pytest.MonkeyPatch, **alphabets: Any) -> tuple[Any, Any]:
    """The space and its token paths, which must not be enumerated."""
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    monkeypatch.setattr(layout, "ENUMERATE_AT_MOST", 0)
    space = parse_template(template, alphabets)
    paths = lay_out(space, encoder(made), lambda: token_pieces(made, len(made)), Tries())
    assert isinstance(paths, AutomatonPaths)
    return space, paths


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(name for name, on in flags.items() if on))
@pytest.mark.parametrize("kind", KINDS)
def test_every_filling_between_added_tokens_has_exactly_one_path_the_encoding_of_the_whole_text(
    kind: str, flags: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_turns(kind, **flags)
    for template in TEMPLATES:
        space, paths = walked(made, template, monkeypatch)
        assert sorted(all_fillings(paths)) == sorted(space.enumerate())
        space, paths = walked(made, template.replace("{digits:2}", "{digits:9}"), monkeypatch)
        for filling in space.sample(20, 1):
            tokens = encoder(made)([space.fill(filling)])[0]
            assert [*paths.prefix, *paths.path(filling)] == tokens
            assert len(paths.path(filling)) <= paths.longest


@pytest.mark.slow
def test_an_added_token_between_slots_is_part_of_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("digits merged", "Llama 3", "Gemma"):
        space, paths = walked(with_turns(kind, special=True), "pin {digits:1}<|end|>{digits:2}.", monkeypatch)
        assert sorted(all_fillings(paths)) == sorted(space.enumerate())


@pytest.mark.parametrize("kind", ["digits merged", "Llama 3", "Gemma"])
def test_a_value_that_spells_an_added_token_has_that_token(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_turns(kind, special=True)
    words = Alphabet("w", ("red", "<|end|>", "is<|end|>", "<|en", "d|>"))
    space, paths = walked(made, "<|start|>the {w}{w}<|end|>\n", monkeypatch, w=words)
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())
    filling = ("red", "is<|end|>")
    tokens = paths.path(filling)
    assert [*paths.prefix, *tokens] == encoder(made)([space.fill(filling)])[0]
    assert tokens.count(made.convert_tokens_to_ids("<|end|>")) == 2


def test_white_space_that_an_added_token_takes_from_some_values_is_no_filling_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = with_turns("digits merged", special=True, lstrip=True)
    space = parse_template("the {w} {w}<|end|>", {"w": word_list("w", ["red", "red ", "Blue"])})
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    with pytest.raises(TargetError, match="cannot be distinguished"):
        lay_out(space, encoder(made), lambda: token_pieces(made, len(made)), Tries())


def test_what_follows_more_tokens_than_there_are_marks_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_turns("digits merged", special=True)
    monkeypatch.setattr(fixed_ends, "MARKS", 3)
    space, paths = walked(made, "the pin is {digits:2}.<|end|>\n\n<|start|>x<|end|>", monkeypatch)
    assert paths._tail.text == "<|start|>x<|end|>"
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())


@pytest.mark.parametrize("template", ["☃ the pin is {digits:2}<|end|>", "the pin is {digits:2}☃<|end|>"])
def test_an_unknown_character_beside_added_tokens_is_declined(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_turns("Unigram", special=True)
    with pytest.raises(TargetError, match="does not give back the text"):
        walked(made, template, monkeypatch)


def test_private_characters_in_a_template_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_turns("digits merged", special=True)
    space, paths = walked(made, "the {digits:1}\U000f0000{digits:1}\U000f0000<|end|>", monkeypatch)
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())


def test_what_is_to_come_becomes_less_up_to_the_last_added_token(monkeypatch: pytest.MonkeyPatch) -> None:
    _, paths = walked(with_turns("byte fallback", special=True), TEMPLATES[0], monkeypatch)
    waiting = [paths.root]
    while waiting:
        state = waiting.pop()
        after = paths.table(np.array([state]))[0]
        for each in set(after[after >= 0].tolist()):
            assert paths.to_come(np.array([each]))[0] < paths.to_come(np.array([state]))[0]
            waiting.append(each)
