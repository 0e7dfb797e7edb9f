"""``leakage train-nlu`` and ``leakage nlu-data`` from files to folders, and what they refuse."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from transformers import AutoTokenizer

from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import read_manifest, write_manifest
from leakage_tasks.cli.train_nlu import _recipe
from leakage_tasks.data.utterances import Utterance, read_utterances, write_folder
from leakage_tasks.models.nlu_tagger import NLUTagger
from leakage_tasks.training.tagger.recipe import NLURecipe
from leakage_tasks.training.tagger.trainer import score_tagger
from tests.training.tagger.utterances import made

SMALL = ("--epochs", 2, "--batch-size", 8, "--embedding-size", 6, "--hidden-size", 4, "--device", "cpu")


def as_conll(rows):
    blocks = (
        "\n".join([f"# intent = {row.intent}", *map(" ".join, zip(row.words, row.tags, strict=True))]) for row in rows
    )
    return "\n\n".join(blocks) + "\n"


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """``data`` of three folders, ``one`` folder alone, ``rows.conll`` and a manifest."""
    folder = tmp_path_factory.mktemp("nlu")
    (folder / "data").mkdir()
    for number, name in enumerate(("train", "valid", "test")):
        write_folder(made(24, seed=number), folder / "data" / name)
    write_folder(made(24), folder / "one")
    (folder / "rows.conll").write_text(as_conll(made(9, seed=5)))
    write_manifest([Canary("pin", "my pin is {digit_words:2}", ("4", "7"), repetitions=10)], folder / "canaries.jsonl")
    return folder


def loaded(folder):
    return NLUTagger.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def told(name, folder, rows):
    scores = score_tagger(*loaded(folder), rows)
    return (
        f"{name}: intent accuracy {scores.intent_accuracy:.4f} ({scores.intents_right} of {scores.rows}), "
        f"slot F1 {scores.slot_f1:.4f}, loss {scores.loss:.3f} nats an utterance"
    )


def test_a_folder_of_three_parts_is_trained_stopped_and_tested_on(leakage, given, tmp_path):
    output = tmp_path / "tagger"
    code, out, err = leakage("train-nlu", given / "data", "-o", output, "--patience", 1, *SMALL)
    assert (code, "nats/row" in err) == (0, True)
    lines = out.splitlines()
    words = len({word for row in made(24) for word in row.words}) + 2
    assert lines[0].startswith(f"{output}: {words} words, 3 intents, 5 tags; weights of epoch ")
    assert lines[1:] == [
        told("validation", output, read_utterances(given / "data" / "valid")),
        told("test", output, read_utterances(given / "data" / "test")),
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["tagger"]


def test_files_named_take_the_place_of_those_in_the_data(ran, given, tmp_path):
    output = tmp_path / "tagger"
    files = ("--validation", given / "rows.conll", "--test", given / "one")
    out, _ = ran("train-nlu", given / "data", "-o", output, *files, *SMALL)
    assert out.splitlines()[1:] == [told("validation", output, made(9, seed=5)), told("test", output, made(24))]


def test_a_conll_file_alone_is_trained_on(leakage, given, tmp_path):
    code, out, _ = leakage("train-nlu", given / "rows.conll", "-o", tmp_path / "tagger", *SMALL, "--characters")
    (line,) = out.splitlines()
    assert (code, line.endswith("weights of epoch 2 of 2")) == (0, True)
    model, _ = loaded(tmp_path / "tagger")
    assert set(model.config.characters) == {letter for row in made(9, seed=5) for word in row.words for letter in word}


def test_each_word_of_the_values_of_canaries_and_of_listed_words_is_known(leakage, given, tmp_path):
    cities = word_list("city", ["new york", "san jose", "los angeles"])
    canary = Canary("c", "fly to {city} now", ("san jose",), alphabets={"city": cities})
    write_manifest([canary, *read_manifest(given / "canaries.jsonl")], tmp_path / "canaries.jsonl")
    (tmp_path / "words.txt").write_text("rio grande\n\nred\n")
    known = ("--canaries", tmp_path / "canaries.jsonl", "--words", tmp_path / "words.txt")
    assert leakage("train-nlu", given / "one", "-o", tmp_path / "tagger", *known, *SMALL)[0] == 0
    vocabulary = loaded(tmp_path / "tagger")[1].get_vocab()
    assert {"new", "york", "san", "jose", "los", "angeles", "rio", "grande", "red", *"0123456789"} <= vocabulary.keys()
    assert not any(" " in word for word in vocabulary)


@pytest.mark.parametrize(
    ("copies", "for_canaries"), [(0, ""), (1, ""), (3, " for a canary of 3 copies")], ids=lambda each: str(each)
)
def test_with_dp_sgd_the_promise_is_told_for_the_copies_in_the_training_rows(
    copies, for_canaries, ran, given, tmp_path
):
    planted = Utterance(("my", "pin", "is", "4", "7"), ("O",) * 5, "call")
    write_folder([*made(24), *[planted] * copies], tmp_path / "data")
    asked = ("--noise-multiplier", 2, "--delta", 1e-3, "--canaries", given / "canaries.jsonl")
    out, _ = ran("train-nlu", tmp_path / "data", "-o", tmp_path / "tagger", *asked, *SMALL, "--epochs", 1)
    told = re.fullmatch(r"ε = [\d.]+ for one row(?:, [\d.∞]+( for .*))? at δ = 0\.001", out.splitlines()[-1])
    assert (told[1] or "") == for_canaries


def test_with_dp_sgd_and_patience_the_choice_of_the_epoch_is_said_to_be_outside(ran, given, tmp_path):
    asked = ("--noise-multiplier", 2, "--delta", 1e-3, "--patience", 1)
    out, _ = ran("train-nlu", given / "data", "-o", tmp_path / "tagger", *asked, *SMALL)
    assert out.splitlines()[-1].endswith("; it does not cover the validation rows, which chose the epoch")


def test_the_generated_set_is_one_to_train_on(leakage, tmp_path):
    code, out, _ = leakage("nlu-data", "-o", tmp_path / "data", "--count", 40, "--seed", 1)
    assert (code, out) == (0, f"{tmp_path / 'data'}: 40 utterances in train, others in valid and test\n")
    assert len(read_utterances(tmp_path / "data" / "train")) == 40
    assert leakage("train-nlu", tmp_path / "data", "-o", tmp_path / "tagger", *SMALL)[0] == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--patience", 1), "leakage: --patience needs the validation loss"),
        (("--epochs", 0), "leakage: --epochs is 0"),
        (("--seed", 1 << 64), "leakage: --seed is 18446744073709551616: give a number from 0"),
        (("--embeddings", "none.vec", "--embedding-size", 8), "--embedding-size is the size of the vectors"),
        (("--embeddings", "none.vec"), "none.vec: cannot read word vectors"),
        (("--frozen",), "leakage: --frozen keeps the word vectors of --embeddings"),
        (("--delta", 1e-3), "--delta is for DP-SGD"),
        (("--max-grad-norm", 1), "--max-grad-norm is for DP-SGD"),
        (
            ("--epsilon", 1, "--noise-multiplier", 1),
            "leakage: --noise-multiplier sets the noise that --epsilon computes",
        ),
        (("--epsilon", 1, "--delta", 0.5), "leakage: --delta is 0.5 for 24 rows"),
        (("--device", "nowhere"), "device='nowhere'"),
        (("--canaries", "none.jsonl"), "none.jsonl: cannot read the manifest"),
        (("--words", "none.txt"), "none.txt: cannot read the word list"),
        (("--validation", "none.conll"), "none.conll: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_nothing_is_written(options, named, leakage, given, tmp_path):
    small = SMALL if "--embeddings" not in options else ("--device", "cpu")
    code, out, err = leakage("train-nlu", given / "one", "-o", tmp_path / "tagger", *small, *options)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("leakage: ")
    assert named in err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_would_take_other_things_place_is_refused(leakage, given, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    assert leakage("train-nlu", given / "one", "-o", tmp_path / "model", *SMALL)[0] == 0
    (tmp_path / "model" / "notes.txt").write_text("mine")
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    lost = "contains other files than a model (notes.txt)"
    for name, why in (("kept", "contains other files than a model"), ("model", lost), ("file", "is a file"),
                      ("no/where", "no folder")):  # fmt: skip
        code, _, err = leakage("train-nlu", given / "one", "-o", tmp_path / name, *SMALL)
        assert (code, why in err) == (2, True)
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before


def test_a_model_may_stand_in_the_folder_of_its_data_and_is_replaced_by_a_later_one(leakage, tmp_path):
    write_folder(made(24), tmp_path / "data")
    for size in (4, 5):
        shape = ("--epochs", 1, "--embedding-size", 6, "--hidden-size", size, "--device", "cpu")
        assert leakage("train-nlu", tmp_path / "data", "-o", tmp_path / "data" / "model", *shape)[0] == 0
    assert loaded(tmp_path / "data" / "model")[0].config.hidden_size == 5


def test_a_fault_in_the_data_names_file_and_line(refused, given, tmp_path):
    (tmp_path / "bad.conll").write_text("# intent = call\ncall O\nanna B_name\n")
    err = refused("train-nlu", tmp_path / "bad.conll", "-o", tmp_path / "tagger", *SMALL)
    assert err.startswith(f"leakage: {tmp_path / 'bad.conll'}:3: tag 'B_name'")


def test_with_patience_there_are_epochs_enough_to_be_stopped() -> None:
    names = [field.name for field in fields(NLURecipe)]
    assert _recipe({**dict.fromkeys(names), "patience": 20}).epochs == 100
    assert _recipe({**dict.fromkeys(names), "patience": 20, "epochs": 30}).epochs == 30
    assert _recipe(dict.fromkeys(names)).epochs == 10
