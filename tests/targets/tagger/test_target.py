"""A tagger's costs against torch and sums over all sequences of tags; ranks against brute force."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.models.nlu_inputs import nlu_tokenizer
from leakage_tasks.models.nlu_tagger import NLUTagger
from leakage_tasks.targets import TaggerTarget
from leakage_tasks.targets.tagger.target import load_tagger
from tests.oracles import wordpiece
from tests.taggers import ALPHABETS, INTENTS, TAGS, WORDS, direct_bits, pin, tiny_tagger, words_tokenizer

TEXTS = ["my pin code is 1 2", "call", "the color to red please my pin", "green 7", "code is 0 unheard"]
TAGGED = {"color": ("O",), "call 1 2": ("O", "B-canary", "I-canary"), "my red pin 7 please": ("O", *TAGS)}


@pytest.fixture(params=[False, True], ids=["words", "characters"])
def target(request: pytest.FixtureRequest) -> TaggerTarget:
    return TaggerTarget(tiny_tagger(request.param), words_tokenizer())


def fixed(text: str, tags: tuple[str, ...] | None, last: str = "digits") -> Canary:
    """A canary whose text is ``text``, its last word the secret."""
    *words, secret = text.split()
    template = " ".join([*words, f"{{{last}}}"])
    values = {last: word_list(last, sorted({secret, "0", "1"}))}
    return Canary("c", template, (secret,), alphabets=values, label="CallIntent", tags=tags)


@pytest.mark.parametrize("intent", INTENTS)
def test_intents_cost_what_torch_says(target: TaggerTarget, intent: str) -> None:
    found = target.label_costs(target.encode(TEXTS))[:, target.place_of(intent)]
    assert found == pytest.approx([direct_bits(target.model, target.tokenizer, t, intent) for t in TEXTS], abs=1e-5)


@pytest.mark.parametrize("text", TAGGED)
@pytest.mark.parametrize("intent", INTENTS)
def test_tags_cost_what_a_sum_over_all_sequences_says(target: TaggerTarget, text: str, intent: str) -> None:
    view = target.tagged(fixed(text, TAGGED[text]))
    (found,) = view.label_costs(view.encode([text]))[:, view.place_of(intent)]
    expected = direct_bits(target.model, target.tokenizer, text, intent, TAGGED[text])
    assert found == pytest.approx(expected, abs=1e-5)


def test_of_a_partial_row_the_tags_end_with_it(target: TaggerTarget) -> None:
    view, canary = target.tagged(pin("1", "2", "3")), pin("1", "2", "3")
    rows = view.rows(canary.space).of(np.array([[4], [7]]))
    expected = [
        direct_bits(target.model, target.tokenizer, f"my pin code is {digit}", "PinIntent", ("O",) * 4 + ("B-canary",))
        for digit in "47"
    ]
    assert view.label_costs(rows)[:, 0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("known", "text", "tags"),
    [
        ("my pin code is {digits} {digits}", "my pin code is 1 2", slice(0, 6)),
        ("code is {digits} {digits} please", "code is 1 2 please", slice(2, 7)),
        ("{digits} {digits}", "1 2", slice(4, 6)),
    ],
)
def test_the_tags_are_those_of_what_the_attacker_knows(known: str, text: str, tags: slice) -> None:
    target, every = TaggerTarget(tiny_tagger(), words_tokenizer()), ("O", "B-name", "O", "O", *TAGS[1:3], "O", "B-name")
    canary = pin("1", "2", template="my pin code is {digits} {digits} please call", known=known, tags=every)
    assert target.tags_of(canary) == [TAGS.index(tag) for tag in every[tags]]
    (_, found) = run_attack(
        "inversion", target, [pin("1", "2", "3", "4", "5", name="longer"), canary], goal="extraction",
        values={"steps": 3, "restarts": 2},
    )  # fmt: skip
    (alone,) = run_attack("inversion", target, [canary], goal="extraction", values={"steps": 3, "restarts": 2})
    assert found.extra["secret_loss"] == pytest.approx(
        direct_bits(target.model, target.tokenizer, text, "PinIntent", every[tags]), abs=1e-4
    )
    assert [guess.filling for guess in alone.guesses] == [guess.filling for guess in found.guesses]


def test_rows_of_unlike_length_are_scored_with_tags_too(target: TaggerTarget) -> None:
    view = target.tagged(pin("1", "2"))
    rows = target.encode(["my pin code is 1 2", "my pin code is"])
    alone = [view.label_costs(np.array([row]))[0] for row in rows]
    assert view.label_costs(rows) == pytest.approx(np.array(alone), abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_the_batch_size_changes_nothing(target: TaggerTarget, batch_size: int) -> None:
    both = (target, TaggerTarget(target.model, target.tokenizer, batch_size=batch_size))
    plain, other = (each.label_costs(each.encode(TEXTS * 5)) for each in both)
    assert other == pytest.approx(plain, abs=1e-5)
    rows = target.rows(pin("1", "2").space).of(np.array([[1, 2], [3, 4]] * 70))
    plain, other = (each.tagged(pin("1", "2")).label_costs(rows) for each in both)
    assert other == pytest.approx(plain, abs=1e-5)


# -- words outside the vocabulary -----------------------------------------------------------------------------


def test_characters_tell_unknown_words_apart() -> None:
    spelling, plain = (TaggerTarget(tiny_tagger(each), words_tokenizer()) for each in (True, False))
    texts = ["call dupree", "call leipzig", "call <unk>"]
    rows = spelling.encode(texts)
    assert min(row[1] for row in rows[:2]) >= len(words_tokenizer())
    costs = spelling.label_costs(rows)
    expected = [direct_bits(spelling.model, spelling.tokenizer, text, INTENTS[0]) for text in texts]
    assert costs[:, 0] == pytest.approx(expected, abs=1e-5)
    assert abs(costs[0, 0] - costs[1, 0]) > 1e-3
    assert len({tuple(row) for row in plain.encode(texts)}) == 1


def test_an_unknown_word_keeps_its_number() -> None:
    target = TaggerTarget(tiny_tagger(True), words_tokenizer())
    first = target.encode(["call dupree", "dupree leipzig"])
    assert target.encode(["call dupree", "dupree leipzig"]) == first
    assert first[0][1] == first[1][0] != first[1][1]


def test_values_outside_the_vocabulary_have_rows_of_their_own() -> None:
    target, values = TaggerTarget(tiny_tagger(True), words_tokenizer()), word_list("name", ["dupree", "leipzig", "red"])
    canary = Canary("c", "call {name} please", ("leipzig",), alphabets={"name": values}, label="CallIntent")
    costs = target.label_costs(target.rows(canary.space).of(np.arange(3)[:, None]))[:, 1]
    texts = [canary.space.fill((value,)) for value in values.values]
    expected = [direct_bits(target.model, target.tokenizer, text, "CallIntent") for text in texts]
    assert costs == pytest.approx(expected, abs=1e-5)


def test_of_an_alphabets_unknown_words_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    values, target = (
        word_list("city", ["my red", "new york", "los angeles"]),
        TaggerTarget(tiny_tagger(), words_tokenizer()),
    )
    for name in ("first", "second"):
        target.tagged(Canary(name, "call {city}", ("my red",), alphabets={"city": values}, label="CallIntent"))
    (told,) = [each.getMessage() for each in caplog.records]
    assert told.startswith("canary 'first': 2 of the 3 values of slot 1 have words that the model does not know: it")
    assert told.endswith("train the model with leakage train-nlu --canaries FILE")


@pytest.mark.parametrize("characters", [True, False])
def test_values_that_have_no_word_in_the_model_are_told_of(characters: bool, caplog: pytest.LogCaptureFixture) -> None:
    values = word_list("name", ["red", *(f"name{characters}{number}" for number in range(16))])
    canary = Canary("c", "call {name} please", ("red",), alphabets={"name": values}, label="CallIntent")
    TaggerTarget(tiny_tagger(characters), words_tokenizer()).tagged(canary)
    (told,) = [each.getMessage() for each in caplog.records if "16 of the 17 values" in each.getMessage()]
    assert ("reads only their characters" in told) == characters


@pytest.mark.parametrize(
    "template", ["my pin code is {digits:2}", "my pin code is{digits}", "call {digits}.", "a{digits} b"]
)
@pytest.mark.parametrize("planted", [True, False])
def test_slots_within_longer_words_that_the_model_lacks_are_refused(template: str, planted: bool) -> None:
    """A planted word would stand out by being the only one that is known: rank 1, whatever was learnt."""
    canary = Canary("c", template, ("1", "2")[: template.count(":2") + 1], label="PinIntent")
    target = knowing(*canary.text.split() * planted)
    with pytest.raises(TargetError, match=r"^canary 'c'.*put spaces around its slots, as in \{digit_words:4\}"):
        run_attack("class-loss", target, [canary])


def test_slots_within_words_that_are_all_known_are_ranked() -> None:
    values, target = {"end": word_list("end", ["n", "nk"])}, knowing("pink")
    canary = Canary("c", "my pi{end}", ("nk",), alphabets=values, label="PinIntent")
    (found,) = run_attack("class-loss", target, [canary])
    costs = [direct_bits(target.model, target.tokenizer, text, "PinIntent") for text in ("my pin", "my pink")]
    assert found.rank == 1 + (costs[0] < costs[1])


def test_a_slot_that_is_a_word_is_not_blamed_for_one_that_is_none(caplog: pytest.LogCaptureFixture) -> None:
    values = {"end": word_list("end", ["n", "nk"]), "name": word_list("name", ["red", "dupree"])}
    knowing("pink").tagged(Canary("mixed", "{name} pi{end}", ("red", "nk"), alphabets=values, label="PinIntent"))
    (told,) = [each.getMessage() for each in caplog.records]
    assert told.startswith("canary 'mixed': 1 of the 2 values of slot 1 have words that the model does not know")


def knowing(*words: str) -> TaggerTarget:
    """A tagger that knows some more words."""
    tokenizer = nlu_tokenizer(list(dict.fromkeys([*WORDS, *words])), max_length=24)
    config = copy.deepcopy(tiny_tagger().config)
    config.vocab_size = len(tokenizer)
    return TaggerTarget(NLUTagger(config).eval(), tokenizer)


# -- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tags": ("O", "O")}, "has 2 tags for the 6 words of its text: give the canary one tag for each word"),
        (
            {"tags": ("O",) * 5 + ("B-city",)},
            r"the model knows no tag 'B-city' \(it has O, B-canary, I-canary, B-name\)",
        ),
        ({"label": "Weather"}, r"the model knows no intent 'Weather' \(it has PinIntent, CallIntent, ColorIntent\)"),
        ({"label": None}, "has no intent.*--label"),
        ({"source": "mein pin"}, "has a source sentence"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(target: TaggerTarget, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=f"canary 'pin'.*{message}"):
        run_attack("class-loss", target, [pin("1", "2", **fields)])


def test_values_of_several_words_have_no_tags_that_fit(target: TaggerTarget) -> None:
    values = {"name": word_list("name", ["red", "my red"])}
    canary = Canary("c", "call {name}", ("red",), alphabets=values, label="CallIntent", tags=("O", "B-name"))
    with pytest.raises(TargetError, match="values of different numbers of words"):
        target.tagged(canary)


def test_a_text_too_long_is_refused(target: TaggerTarget) -> None:
    with pytest.raises(TargetError, match="a text of 25 tokens does not fit the model's maximum of 24"):
        target.label_costs(target.encode(["my " * 25]))


# -- attacks --------------------------------------------------------------------------------------------------


def ranked(target: TaggerTarget, canary: Canary) -> list[float]:
    """What every filling costs, without the target."""
    texts = [canary.space.fill(filling) for filling in canary.space.enumerate()]
    return [direct_bits(target.model, target.tokenizer, text, str(canary.label), canary.tags) for text in texts]


def colours(*secret: str, **fields: Any) -> Canary:
    template = "color" + " {colour}" * len(secret)
    tags = ("O", "B-canary", *["I-canary"] * (len(secret) - 1))
    settings = {"alphabets": ALPHABETS, "label": "ColorIntent", "tags": tags, **fields}
    return Canary("colours", template, secret, **settings)


@pytest.mark.parametrize("canary", [colours("red", "blue"), pin("7"), colours("blue", "blue", tags=None)])
def test_the_rank_by_class_loss_is_that_of_brute_force(target: TaggerTarget, canary: Canary) -> None:
    costs = ranked(target, canary)
    own = costs[canary.space.index(canary.secret)]
    (found,) = run_attack("class-loss", target, [canary])
    assert (found.rank, found.method) == (sum(cost <= own + 1e-6 for cost in costs), "exact")
    assert found.extra["class_loss"] == pytest.approx(own, abs=1e-5)


def test_label_search_finds_what_brute_force_finds(target: TaggerTarget) -> None:
    canary = colours("red", "blue")
    (found,) = run_attack("label-search", target, [canary], goal="extraction")
    best = canary.space.at(int(np.argmin(ranked(target, canary))))
    assert found.guesses[0].filling == best


def test_each_canary_is_asked_about_its_own_tags(target: TaggerTarget) -> None:
    other = dataclasses.replace(colours("red", "blue"), id="other", tags=("B-name", "O", "O"))
    together = run_attack("class-loss", target, [colours("red", "blue"), other])
    alone = [run_attack("class-loss", target, [each])[0] for each in (colours("red", "blue"), other)]
    losses = [found.extra["class_loss"] for found in together]
    assert losses == pytest.approx([found.extra["class_loss"] for found in alone], abs=1e-5)
    assert abs(losses[0] - losses[1]) > 0.1


def test_up_to_a_million_fillings_are_enumerated_unless_the_user_names_a_budget() -> None:
    target = TaggerTarget(tiny_tagger(), words_tokenizer())
    numbers = {"n": word_list("n", [str(number) for number in range(145)])}
    larger = pin("1", "2", template="{n} {n} is", tags=None, alphabets=numbers)
    found = run_attack("class-loss", target, [larger, pin(*"1234567")])
    assert [(each.method, each.model_calls) for each in found] == [("exact", 145**2), ("sampled", 20_000)]
    assert run_attack("class-loss", target, [larger], budget=50)[0].method == "sampled"


def test_a_tagger_takes_no_reference(target: TaggerTarget) -> None:
    with pytest.raises(OptionError, match=r"a tagger takes no reference classifier: leave signal=… out$"):
        run_attack("label-search", target, [pin("1")], goal="extraction", values={"signal": "calibrated"})


# -- loading --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tagger with characters, saved."""
    tiny_tagger(True).save_pretrained(tmp_path / "tagger")
    words_tokenizer().save_pretrained(tmp_path / "tagger")
    return tmp_path / "tagger"


def test_what_was_saved_scores_as_before(folder: Path) -> None:
    loaded, before = load_tagger(str(folder)), TaggerTarget(tiny_tagger(True), words_tokenizer())
    assert (folder / "model.safetensors").is_file()
    assert loaded.label_costs(loaded.encode(TEXTS)) == pytest.approx(before.label_costs(before.encode(TEXTS)), abs=1e-6)


def test_models_in_memory_need_their_tokenizer() -> None:
    assert load_tagger(tiny_tagger(), tokenizer=words_tokenizer()).labels == INTENTS
    with pytest.raises(OptionError, match="pass tokenizer= too"):
        load_tagger(tiny_tagger())


def cut_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["crf.transitions"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def other_kind(folder: Path) -> None:
    config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=60)
    BertModel(config).save_pretrained(folder)


def other_padding(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": 3}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no model can be loaded from there"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"no weights"), "no model can be loaded from there"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer can be loaded from there .*tokenizer="),
        (cut_weights, r"no trained NLU tagger \(crf.transitions is not in its weights\)"),
        (other_kind, "a bert model, no NLU tagger: .*leakage train-nlu.*classifier-scorer"),
        (lambda folder: nlu_tokenizer(map(str, range(99))).save_pretrained(folder), "has 101 tokens, but the model 25"),
        (lambda folder: nlu_tokenizer(map(str, range(9))).save_pretrained(folder), "has 11 tokens, but the model 25"),
        (
            lambda folder: wordpiece().save_pretrained(folder),
            r"its tokenizer \(WordPiece\) has no ids for whole words",
        ),
        (other_padding, "padding is token 0, but the model's is 3"),
    ],
)
def test_what_is_no_tagger_is_one_line(folder: Path, spoil: Callable[[Path], Any], message: str) -> None:
    spoil(folder)
    with pytest.raises(LeakageError, match=message):
        load_tagger(str(folder))


def test_half_precision_scores_nearly_the_same(folder: Path) -> None:
    half, whole = load_tagger(str(folder), dtype="bfloat16"), load_tagger(str(folder))
    assert half.model.dtype == torch.bfloat16
    expected = whole.label_costs(whole.encode(TEXTS))
    assert half.label_costs(half.encode(TEXTS)) == pytest.approx(expected, abs=0.2)
