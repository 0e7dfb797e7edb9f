"""C(v) counted from a text, and read from a file."""

import json
from collections import Counter

import pytest

from leakage_tasks.attacks.classifier.label_search import shares_from_counts, token_shares, value_shares
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.targets import ClassifierTarget
from tests.oracles import WORDS, tiny_bert, wordpiece
from tests.targets.tokens.test_slot_tokens import byte_level

TEXTS = ["the cat sat on the mat.", "a dog, a dog runs", "the number is 90"]
NONE = {"corpus": None, "counts": None, "corpus_column": "text", "lambda": 0.1}


@pytest.fixture
def target():
    return ClassifierTarget(tiny_bert(), wordpiece())


def shares(target, alphabet, settings):
    rows = target.rows(parse_template("a {w}", {"w": alphabet}))
    return value_shares(target, alphabet, rows.tokens(0), settings)


def test_shares_are_of_all_tokens_but_special_ones(tmp_path, target):
    (tmp_path / "train.jsonl").write_text("".join(json.dumps({"text": text, "label": "x"}) + "\n" for text in TEXTS))
    counts = Counter(token for text in TEXTS for token in wordpiece().tokenize(text))
    found = token_shares(target, str(tmp_path / "train.jsonl"), "text")
    assert found == {
        wordpiece().convert_tokens_to_ids(token): count / counts.total() for token, count in counts.items()
    }


def test_a_value_of_several_tokens_has_its_rarest_ones_share(tmp_path, target):
    (tmp_path / "train.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    settings = NONE | {"corpus": str(tmp_path / "train.jsonl")}
    dog, ninety, house = shares(target, word_list("w", ["dog", "90", "house"]), settings)
    total = sum(len(wordpiece().tokenize(text)) for text in TEXTS)
    assert (dog, ninety, house) == pytest.approx((2 / total, 1 / total, 0.0))


def test_words_are_counted_as_they_are_written_in_a_text(tmp_path):
    words = WORDS[:15]
    (tmp_path / "train.jsonl").write_text(
        "".join(json.dumps({"text": f"the pin is {w} of {w}."}) + "\n" for w in words)
    )
    target = ClassifierTarget(tiny_bert(), byte_level())
    found = shares(target, word_list("w", words), NONE | {"corpus": str(tmp_path / "train.jsonl")})
    assert (found > 0).all()


def test_counts_given_become_shares(tmp_path, target):
    (tmp_path / "counts.json").write_text(json.dumps({"dog": 3, "cat": 1}))
    settings = NONE | {"counts": str(tmp_path / "counts.json")}
    assert shares(target, word_list("w", ["cat", "dog", "mat"]), settings).tolist() == [0.25, 0.75, 0.0]


def test_without_a_text_pythons_help_stands_in_and_says_so(target, caplog):
    the, house = shares(target, word_list("w", ["the", "house"]), NONE | {"lambda": 0.0123})
    assert the > 0.02 > house
    assert "Python's help text" in caplog.text


def test_a_tokenizer_without_the_words_of_pythons_help(target, monkeypatch):
    monkeypatch.setattr(target, "encode", lambda texts: [[2, 3] for _ in texts])
    with pytest.raises(OptionError, match="^Python's help text has no words of the tokenizer: give the training text"):
        token_shares(target, None, "text")


@pytest.mark.parametrize("content", ["[1, 2]", '{"a": -1}', '{"a": "x"}', "{}", '{"a": 0}', "no"])
def test_counts_that_are_none(tmp_path, content):
    (tmp_path / "counts.json").write_text(content)
    with pytest.raises(OptionError, match=r"counts\.json: (expected|cannot be read).* JSON object of counts"):
        shares_from_counts(str(tmp_path / "counts.json"))


def test_a_corpus_that_is_not_there(target, tmp_path):
    with pytest.raises(LeakageError, match="no such file"):
        token_shares(target, str(tmp_path / "none.jsonl"), "text")


def test_a_corpus_without_words(target, tmp_path):
    (tmp_path / "empty.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(OptionError, match="contains no words"):
        token_shares(target, str(tmp_path / "empty.jsonl"), "text")
