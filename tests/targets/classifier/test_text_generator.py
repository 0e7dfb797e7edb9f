"""A generator that writes texts, against texts that are known and against the model's own probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.classifier_scorer import ClassifierScorerLM
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.spaces import Space, parse_template
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.classifier.generators import load_generator
from leakage_tasks.targets.classifier.text_generator import TextGenerator
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.protocols import ProposesValues
from tests.encoders import save_base, save_classifier
from tests.oracles import direct_costs, letters, tiny_gpt2

VALUES = ("ab", "abc", "b", "cab")


def space(template: str, values: tuple[str, ...] = VALUES) -> Space:
    return parse_template(template, {"words": word_list("words", values)})


def writing(monkeypatch: pytest.MonkeyPatch, *texts: str, **settings: Any) -> TextGenerator:
    """A generator that writes ``texts``, each once."""
    made = TextGenerator(CausalTarget(tiny_gpt2(letters()), letters()), "text:m", **settings)
    monkeypatch.setattr(made, "_written", lambda before, after, alphabet: [(text, 1) for text in texts])
    return made


def test_values_are_counted_where_the_slot_is_and_those_in_no_text_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    made = writing(monkeypatch, "ab b", "ab.", "b cab", "xab", "abx")
    proposal = made.propose(space("a {words}."), [()], 0)[0]
    assert proposal.places.tolist() == [1, 4, 2, 4]
    assert np.exp2(-proposal.costs).tolist() == pytest.approx([3 / 7, 1 / 7, 2 / 7, 1 / 7])


def test_texts_are_pruned_to_those_that_go_on_as_the_template_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made = writing(monkeypatch, "ab b", "ab x", "b. cab", prune="template")
    assert made.propose(space("a {words}."), [()], 0)[0].places.tolist() == [4, 4, 1, 4]


@pytest.mark.parametrize("template", ["a {words} .", "a {words}."])
@pytest.mark.parametrize("text", ["b .", "b."])
def test_spaces_that_a_tokenizer_does_not_keep_prune_nothing(
    monkeypatch: pytest.MonkeyPatch, template: str, text: str
) -> None:
    made = writing(monkeypatch, text, "ab b.", prune="template")
    assert made.value_counts(space(template), (), 0) == {"b": 1}


def test_the_longest_value_counts_and_whole_words_only_where_the_template_ends_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = writing(monkeypatch, "abcb")
    assert made.propose(space("a {words}b"), [()], 0)[0].places.tolist() == [4, 1, 4, 4]
    with pytest.raises(TargetError, match="no text has a candidate at the slot: raise texts="):
        writing(monkeypatch, "abcb").propose(space("a {words}."), [()], 0)


def test_shares_come_to_the_models_own_probabilities() -> None:
    target = CausalTarget(tiny_gpt2(letters()), letters())
    one = space("ab{words}c", ("a", "b", "c"))
    proposal = TextGenerator(target, "text:m", texts=20_000).propose(one, [()], 0)[0]
    costs = np.array(direct_costs(target.model, target.tokenizer, ["aba", "abb", "abc"]))
    expected = np.exp2(-(costs - costs.min()))
    found = np.exp2(-proposal.costs)
    assert np.sort(expected)[1] > 0.05
    assert found / found.sum() == pytest.approx(expected / expected.sum(), abs=0.03)


def test_a_seed_gives_its_texts_whatever_the_batch_and_the_company() -> None:
    one = space("ab{words}c{words}a", ("a", "b", "c"))
    heads = [("a",), ("b",)]

    def counts(seed: int, batch_size: int | None, heads: list[tuple[str]]) -> list[list[float]]:
        target = CausalTarget(tiny_gpt2(letters()), letters(), batch_size=batch_size)
        made = TextGenerator(target, "text:m", texts=200, seed=seed)
        return [each.costs.tolist() for each in made.propose(one, heads, 1)]

    assert counts(0, None, heads) == counts(0, 2, heads[:1]) + counts(0, 2, heads[1:])
    assert counts(0, None, heads) != counts(1, None, heads)


def test_a_text_longer_than_the_model_reads_is_refused() -> None:
    made = TextGenerator(CausalTarget(tiny_gpt2(letters()), letters(), max_length=6), "text:m")
    with pytest.raises(TargetError, match="does not fit the generator's maximum of 6: shorten it"):
        made.propose(space("ababa{words}c", ("a", "b")), [()], 0)


def test_an_adapter_takes_it_and_says_what_it_drew(tmp_path: Path) -> None:
    save_base(tmp_path / "base")
    save_classifier(tmp_path / "classifier", tmp_path / "base")
    tiny_gpt2(letters()).save_pretrained(tmp_path / "causal")
    letters().save_pretrained(tmp_path / "causal")
    options = {"generator": f"text:{tmp_path / 'causal'}", "texts": 300, "prune": "candidates", "seed": 3}
    lm = ClassifierScorerLM(pretrained=str(tmp_path / "classifier"), device="cpu", **options)
    target = as_target(lm)
    assert isinstance(target, ProposesValues)
    assert target.generator_name == f"text:{tmp_path / 'causal'}, 300 texts pruned to candidates, seed 3"
    found = target.propose(space("ab{words}c", ("a", "b", "c")), [()], 0)[0].costs
    alone = load_generator(options["generator"], texts=300, seed=3).propose(
        space("ab{words}c", ("a", "b", "c")), [()], 0
    )
    assert found.tolist() == alone[0].costs.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prune": "none"}, "prune='none' is unknown: use candidates, template"),
        ({"texts": 0}, "texts=0 must be 1 or more"),
        ({"texts": 5}, "texts= goes with generator=text:MODEL: leave it out"),
        ({"seed": 5}, "seed= goes with generator=text:MODEL: leave it out, or give the seed of the attack as --meta"),
        ({"generator": "exhaustive", "prune": "template"}, "prune= goes with generator=text:MODEL: leave it out"),
        (
            {"generator": "text:"},
            "generator=text:: expected exhaustive, or causal: or text: followed by a causal model's folder",
        ),
        ({"generator": "text:nowhere"}, "generator=text:nowhere: cannot be loaded"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    save_base(tmp_path / "base")
    save_classifier(tmp_path / "classifier", tmp_path / "base")
    with pytest.raises((OptionError, TargetError)) as caught:
        ClassifierScorerLM(pretrained=str(tmp_path / "classifier"), device="cpu", **options)
    assert message in str(caught.value)


def test_what_is_kept_is_told_without_an_error_where_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = writing(monkeypatch, "ab b", "ab.", "xab")
    assert made.value_counts(space("a {words}."), (), 0) == {"ab": 2}
    none = writing(monkeypatch, "ab b", "xab", prune="template")
    assert none.value_counts(space("a {words}."), (), 0) == {}
    with pytest.raises(TargetError, match="no text continues like the template: raise texts="):
        none.propose(space("a {words}."), [()], 0)
