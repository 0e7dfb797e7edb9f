"""Generators of candidates against `transformers` used directly."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import AutoModelForMaskedLM, BertConfig, DebertaV2Config, PreTrainedTokenizerFast, RobertaConfig

from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.spaces import Space, parse_template
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets import CausalTarget, ClassifierTarget, MaskedTarget
from leakage_tasks.targets.classifier import generators
from leakage_tasks.targets.classifier.generators import (
    CausalGenerator,
    ExhaustiveGenerator,
    GeneratingTarget,
    MaskedGenerator,
    load_generator,
)
from tests.encoders import CONFIGS, SHAPE, WORDS, byte_level, classifier_of, masked_costs, save_base, wordpiece
from tests.oracles import costs_of_rows, direct_costs, letters, merging, tiny_gpt2
from tests.targets.causal.test_in_context import spaced

ALPHABET = {"words": word_list("words", WORDS)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A BERT that reads words and a RoBERTa that reads bytes."""
    folder = tmp_path_factory.mktemp("masked")
    roberta = RobertaConfig(**{**SHAPE, "vocab_size": len(byte_level())}, pad_token_id=1)
    return {
        "bert": save_base(folder / "bert", CONFIGS["bert"]),
        "roberta": save_base(folder / "roberta", roberta, byte_level()),
        # Its head is no plain matrix, and is read in full.
        "deberta": save_base(folder / "deberta", DebertaV2Config(**SHAPE, legacy=False)),
    }


def loaded(folders: dict[str, Path], name: str) -> tuple[Any, Any]:
    model = AutoModelForMaskedLM.from_pretrained(folders[name]).eval()
    return model, byte_level() if name == "roberta" else wordpiece()


def space(template: str, words: tuple[str, ...] = WORDS) -> Space:
    return parse_template(template, {"words": word_list("words", words)})


def tokens(tokenizer: Any, values: tuple[str, ...]) -> list[int]:
    """The one token of each value after a space."""
    found = [tokenizer(f"the {value}", add_special_tokens=False)["input_ids"][1:] for value in values]
    assert all(len(ids) == 1 for ids in found)
    return [ids[0] for ids in found]


# -- masked -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize("name", ["bert", "roberta", "deberta"])
def test_costs_are_those_of_the_masked_model(folders: dict[str, Path], name: str, batch_size: int | None) -> None:
    model, tokenizer = loaded(folders, name)
    made = MaskedGenerator(MaskedTarget(model, tokenizer, batch_size=batch_size)).propose(
        space("the pin is {words} of the."), [()], 0
    )
    expected = masked_costs(model, tokenizer, f"the pin is {tokenizer.mask_token} of the.")
    assert made[0].costs == pytest.approx(expected[tokens(tokenizer, WORDS)].numpy(), abs=1e-4)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_earlier_slots_are_filled_and_later_ones_masked(folders: dict[str, Path], name: str) -> None:
    model, tokenizer = loaded(folders, name)
    heads = [("river",), ("seven",), ("light",)]
    made = MaskedGenerator(MaskedTarget(model, tokenizer)).propose(space("the {words:3}: pin."), heads, 1)
    mask = tokenizer.mask_token
    for (head,), proposal in zip(heads, made, strict=True):
        expected = masked_costs(model, tokenizer, f"the {head} {mask} {mask}: pin.")
        assert proposal.costs == pytest.approx(expected[tokens(tokenizer, WORDS)].numpy(), abs=1e-4)


def test_places_count_over_the_whole_vocabulary(folders: dict[str, Path]) -> None:
    model, tokenizer = loaded(folders, "bert")
    (made,) = MaskedGenerator(MaskedTarget(model, tokenizer)).propose(space("the pin is {words}."), [()], 0)
    costs = masked_costs(model, tokenizer, "the pin is [MASK].")
    expected = [1 + int((costs < costs[token]).sum()) for token in tokens(tokenizer, WORDS)]
    assert made.places.tolist() == expected
    assert max(expected) > len(WORDS)


def test_tied_tokens_share_the_better_place(folders: dict[str, Path]) -> None:
    model, tokenizer = loaded(folders, "bert")
    with torch.no_grad():
        for parameter in model.cls.predictions.decoder.parameters():
            parameter.zero_()
        model.cls.predictions.decoder.bias[tokens(tokenizer, ("stone",))[0]] = 1.0
    (made,) = MaskedGenerator(MaskedTarget(model, tokenizer)).propose(
        space("the {words}", ("river", "stone", "cloud")), [()], 0
    )
    assert made.places.tolist() == [2, 1, 2]


def test_heads_of_unequal_lengths_do_not_disturb_each_other(folders: dict[str, Path]) -> None:
    model, tokenizer = loaded(folders, "bert")
    generator = MaskedGenerator(MaskedTarget(model, tokenizer))
    uneven = Space(("the ", " ", "."), (word_list("spelled", ["river", "zzz", "ab"]), ALPHABET["words"]))
    together = generator.propose(uneven, [("zzz",), ("river",), ("ab",)], 1)
    alone = [generator.propose(uneven, [(head,)], 1)[0] for head in ("zzz", "river", "ab")]
    assert np.stack([one.costs for one in together]) == pytest.approx(np.stack([one.costs for one in alone]), abs=1e-4)


def test_a_value_means_its_token_in_its_own_context(folders: dict[str, Path]) -> None:
    model, tokenizer = loaded(folders, "bert")
    glued = Space(("the ", "", "."), (word_list("before", ["of ", "z"]), word_list("after", ["a", "b"])))
    made = MaskedGenerator(MaskedTarget(model, tokenizer)).propose(glued, [("of ",)], 1)
    expected = masked_costs(model, tokenizer, "the of [MASK].")
    assert made[0].costs == pytest.approx(expected[tokens(tokenizer, ("a", "b"))].numpy(), abs=1e-4)


def test_tokens_found_for_one_head_are_not_trusted_for_another(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = loaded(folders, "bert")
    monkeypatch.setattr(generators, "ADJACENT_LEFT", re.compile(r"\Z"))
    glued = Space(("the ", "", "."), (word_list("before", ["of ", "z"]), word_list("after", ["a", "b"])))
    made = MaskedGenerator(MaskedTarget(model, tokenizer)).propose(glued, [("of ",), ("z",)], 1)
    for before, proposal, wanted in zip(("of ", "z"), made, (["a", "b"], ["##a", "##b"]), strict=True):
        expected = masked_costs(model, tokenizer, f"the {before}[MASK].")
        assert proposal.costs == pytest.approx(expected[tokenizer.convert_tokens_to_ids(wanted)].numpy(), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "template", "words", "message"),
    [
        ("bert", "the {words}.", ("river", "unknowable"), "value 'unknowable' becomes 10 tokens"),
        ("roberta", "{words} is", WORDS, "value 'river' becomes . tokens"),
        ("bert", "the [MASK] is {words}.", WORDS, "two masks where one is allowed"),
        ("bert", "the [MASK] is {words:2}.", WORDS, "3 masks, not 2"),
        ("bert", "the {words}.", ("river", "[MASK]"), "alphabet holds '\\[MASK\\]'"),
        ("bert", "the {words} " + "of " * 50, WORDS, "a text of 54 tokens does not fit the model's maximum of 40"),
    ],
)
def test_what_a_mask_cannot_hold_is_refused(
    folders: dict[str, Path], name: str, template: str, words: tuple[str, ...], message: str
) -> None:
    generator = MaskedGenerator(MaskedTarget(*loaded(folders, name)))
    with pytest.raises(TargetError, match=message):
        generator.propose(space(template, words), [()], 0)


def test_a_tokenizer_without_mask_is_refused(folders: dict[str, Path]) -> None:
    model, _ = loaded(folders, "bert")
    with pytest.raises(TargetError, match="has no mask token.*generator=causal:MODEL"):
        MaskedGenerator(MaskedTarget(model, letters()))


def test_a_text_as_long_as_the_encoder_is_read(folders: dict[str, Path]) -> None:
    model, tokenizer = loaded(folders, "roberta")
    text = "the {words}" + " of" * (SHAPE["max_position_embeddings"] - 2 - 4)
    (made,) = MaskedGenerator(MaskedTarget(model, tokenizer)).propose(space(text), [()], 0)
    assert np.isfinite(made.costs).all()


# -- exhaustive ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["the pin is {words} of.", "the pin is {words}.", "the {words} of {words:2}."])
@pytest.mark.parametrize("mask", [{}, {"rstrip": True}, {"lstrip": True, "rstrip": True}], ids=str)
@pytest.mark.parametrize("reading", ["bytes", "marks"])
def test_a_mask_that_takes_or_leaves_white_space_stands_where_the_word_would(
    reading: str, mask: dict[str, bool], template: str
) -> None:
    """Against a row made by hand: the filled text's tokens, the values' own replaced."""
    tokenizer = masking(reading, **mask)
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(RobertaConfig(**{**SHAPE, "vocab_size": len(tokenizer)}, pad_token_id=1))
    asked = space(template)
    (made,) = MaskedGenerator(MaskedTarget(model.eval(), tokenizer)).propose(asked, [()], 0)
    rows = [tokenizer(asked.fill((word,) * len(asked.slots)))["input_ids"] for word in WORDS]
    columns = [place for place, ids in enumerate(zip(*rows, strict=True)) if len(set(ids)) > 1]
    row = [tokenizer.mask_token_id if place in columns else token for place, token in enumerate(rows[0])]
    with torch.no_grad():
        costs = -model(torch.tensor([row])).logits[0, columns[0]].double().log_softmax(-1) / np.log(2)
    assert len(columns) == len(asked.slots)
    assert made.costs == pytest.approx(costs[[ids[columns[0]] for ids in rows]].numpy(), abs=1e-4)


def masking(reading: str, **mask: bool) -> Any:
    """A tokenizer of words with the space before them, in bytes or behind marks, whose mask takes ``mask`` of it."""
    if reading == "bytes":
        made = copy.deepcopy(byte_level())
        backend = made.backend_tokenizer
    else:
        words = ["the", "pin", "is", "of", *WORDS]
        vocabulary = {
            token: place for place, token in enumerate(["<s>", "<pad>", "<unk>", "▁", ".", *("▁" + w for w in words)])
        }
        backend = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>", continuing_subword_prefix=""))
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", pad_token="<pad>", unk_token="<unk>")
    made.add_special_tokens({"mask_token": AddedToken("<odd>", **mask)})
    return made


def test_the_exhaustive_generator_knows_nothing() -> None:
    made = ExhaustiveGenerator().propose(space("the {words:2}"), [("river",), ("stone",)], 1)
    assert len(made) == 2
    for proposal in made:
        assert proposal.costs == pytest.approx([np.log2(len(WORDS))] * len(WORDS))
        assert proposal.places.tolist() == [len(WORDS)] * len(WORDS)


# -- causal -------------------------------------------------------------------------------------------------


def by_hand(tokenizer: Any, before: str, values: tuple[str, ...]) -> list[float]:
    """Log-perplexity of each text less that of the tokens all of them and the text before share."""
    model = tiny_gpt2(tokenizer)
    cut = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, *(before + v for v in values))]
    shared = 0
    while all(len(ids) > shared for ids in cut) and len({ids[shared] for ids in cut}) == 1:
        shared += 1
    kept = tokenizer.decode(cut[0][:shared])
    (start,) = direct_costs(model, tokenizer, [kept]) if kept else [0.0]
    return [cost - start for cost in direct_costs(model, tokenizer, [before + value for value in values])]


@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize(
    ("before", "values"),
    [
        ("the pin is ", ("7", "12", "1234", "9", "ab", "12345")),
        ("the pin is", (" 7", " 12", " 1234", " code")),
        ("", ("the", "pin", "code ab")),
        ("code ab", ("12", "123")),
        ("the pin is ", ("1234",)),
    ],
)
@pytest.mark.parametrize("tokenizer", [merging(), letters()], ids=["merging", "letters"])
def test_causal_costs_are_those_of_whole_texts(
    tokenizer: Any, before: str, values: tuple[str, ...], batch_size: int | None
) -> None:
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer, batch_size=batch_size)
    asked = Space((before, " and more."), (word_list("values", values),))
    (made,) = CausalGenerator(target).propose(asked, [()], 0)
    assert made.costs == pytest.approx(by_hand(tokenizer, before, values), abs=1e-3)


def test_white_space_before_a_slot_costs_a_causal_generator_nothing() -> None:
    tokenizer, before, values = spaced(), "so\n\n", ("the", "pin", "42")
    model = tiny_gpt2(tokenizer)
    expected = []
    for value in values:
        joint = tokenizer(before + value, add_special_tokens=False, return_offsets_mapping=True)
        held = sum(end <= len(before) for _, end in joint["offset_mapping"])
        expected += costs_of_rows(model, [[tokenizer.bos_token_id, *joint["input_ids"]]], 1 + held)
    asked = Space((before, ""), (word_list("values", values),))
    (made,) = CausalGenerator(CausalTarget(model, tokenizer)).propose(asked, [()], 0)
    assert made.costs == pytest.approx(expected, abs=1e-3)


def test_causal_places_are_among_the_values_and_heads_matter() -> None:
    tokenizer = merging()
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer)
    asked = space("the pin is {words:2}, code", ("12", "7", "1234", "90"))
    heads = [("12",), ("90",)]
    made = CausalGenerator(target).propose(asked, heads, 1)
    for (head,), proposal in zip(heads, made, strict=True):
        expected = by_hand(tokenizer, f"the pin is {head} ", asked.slots[1].values)
        assert proposal.costs == pytest.approx(expected, abs=1e-3)
        assert proposal.places.tolist() == [1 + sum(other < cost for other in expected) for cost in expected]
    assert not np.allclose(made[0].costs, made[1].costs)


def test_a_text_too_long_for_the_causal_generator_is_refused() -> None:
    target = CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(TargetError, match="does not fit the generator's 64"):
        CausalGenerator(target).propose(space("a" * 62 + " {words}"), [()], 0)


def test_a_causal_model_is_loaded_by_folder(tmp_path: Path) -> None:
    tiny_gpt2(merging()).save_pretrained(tmp_path / "gpt2")
    merging().save_pretrained(tmp_path / "gpt2")
    made = load_generator(f"causal:{tmp_path / 'gpt2'}")
    asked = space("the pin is {words}.", ("12", "7"))
    expected = CausalGenerator(CausalTarget(tiny_gpt2(merging()), merging())).propose(asked, [()], 0)[0].costs
    assert made.propose(asked, [()], 0)[0].costs == pytest.approx(expected, abs=1e-4)
    assert made.generator_name == f"causal:{tmp_path / 'gpt2'}"


def test_generators_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot be loaded.*give a causal model's folder"):
        load_generator(f"causal:{tmp_path / 'nowhere'}")
    for spec in ("causal:", "markov"):
        with pytest.raises(OptionError, match="expected exhaustive, or causal:"):
            load_generator(spec)


def test_an_encoder_is_no_causal_generator(tmp_path: Path) -> None:
    save_base(tmp_path, CONFIGS["roberta"], byte_level())
    with pytest.raises(TargetError, match=r"^generator=causal:.*: RobertaForCausalLM reads later tokens before"):
        load_generator(f"causal:{tmp_path}")


def test_a_causal_generator_needs_a_token_to_begin_with(tmp_path: Path) -> None:
    save_base(tmp_path)
    with pytest.raises(TargetError, match=r"^generator=causal:.*neither a BOS nor an EOS.*choose another model$"):
        load_generator(f"causal:{tmp_path}")


# -- with a classifier --------------------------------------------------------------------------------------


def test_a_classifier_with_a_generator_scores_and_proposes(folders: dict[str, Path]) -> None:
    model, tokenizer = loaded(folders, "bert")
    generator = MaskedGenerator(MaskedTarget(model, tokenizer), "some name")
    plain = ClassifierTarget(classifier_of(folders["bert"]), tokenizer, ["a", "b", "c"], max_length=30)
    target = GeneratingTarget(plain, generator)
    assert (target.labels, target.max_length, target.generator_name) == (("a", "b", "c"), 30, "some name")
    asked = space("the {words}.")
    made, expected = (one.propose(asked, [()], 0)[0] for one in (target, generator))
    assert np.array_equal(made.costs, expected.costs)
    rows = target.encode(["the river is green."])
    assert np.array_equal(target.label_costs(rows), plain.label_costs(rows))


def test_a_model_with_more_rows_than_tokens_is_fine(tmp_path: Path) -> None:
    folder = save_base(tmp_path / "padded", BertConfig(**{**SHAPE, "vocab_size": 128}))
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    (made,) = MaskedGenerator(MaskedTarget(model, wordpiece())).propose(space("the pin is {words}."), [()], 0)
    costs = masked_costs(model, wordpiece(), "the pin is [MASK].")
    assert len(costs) == 128
    assert made.places.tolist() == [1 + int((costs < costs[one]).sum()) for one in tokens(wordpiece(), WORDS)]
