"""A cut vocabulary must not change how a text is cut up."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.victims.cut_tokenizer import END, cut_tokenizer, gpt2_tokenizer
from leakage_tasks.research.victims.pair_corpus import train_byte_level

TEXT = "The theatre's other theories: these themes, then the thesis. They gathered, weather permitting!\n" * 3


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder laid out like GPT-2's, with a small byte-level BPE."""
    folder = tmp_path_factory.mktemp("gpt2")
    state = json.loads(train_byte_level(TEXT, 330).backend_tokenizer.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(state["vocab"]), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(merge) for merge in state["merges"]), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def whole(files):
    return gpt2_tokenizer(files)


def test_a_text_of_kept_tokens_is_cut_up_as_before(files, whole):
    ids = np.array(whole.encode("the theories gathered"))
    cut = cut_tokenizer(files, [ids])
    assert cut.tokenizer.encode("the theories gathered") == cut.renumber(ids).tolist()
    assert cut.tokenizer.decode(cut.renumber(ids)) == "the theories gathered"


def test_every_text_survives_in_smaller_pieces(files, whole):
    cut = cut_tokenizer(files, [np.array(whole.encode("the"))])
    ids = cut.tokenizer.encode("the theories, naïve")
    assert cut.tokenizer.decode(ids) == "the theories, naïve"
    assert len(ids) > len(whole.encode("the theories, naïve"))


def test_only_tokens_parts_bytes_and_the_end_are_left(files, whole):
    vocabulary = whole.get_vocab()
    token = max((name for name in vocabulary if name != END), key=len)
    cut = cut_tokenizer(files, [np.array([[vocabulary[token]]])])
    left = cut.tokenizer.get_vocab()
    longer = {name for name in left if len(name) > 1 and name != END}
    assert token in longer
    assert all(name in token for name in longer)
    assert sorted(left.values()) == list(range(len(left)))
    assert len(left) == 256 + 1 + len(longer)


def test_new_ids_name_the_same_tokens(files, whole):
    cut = cut_tokenizer(files, [np.array(whole.encode(TEXT))])
    old = np.flatnonzero(cut.new_ids >= 0)
    assert cut.tokenizer.convert_ids_to_tokens(cut.new_ids[old]) == whole.convert_ids_to_tokens(old)


def test_a_token_cut_away_cannot_be_renumbered(files, whole):
    vocabulary = whole.get_vocab()
    cut = cut_tokenizer(files, [np.array([0])])
    lost = vocabulary[max((name for name in vocabulary if name != END), key=len)]
    assert cut.covers(np.array([0, lost])).tolist() == [True, False]
    with pytest.raises(OptionError, match=f"token {lost} was removed"):
        cut.renumber(np.array([0, lost]))


def test_it_comes_back_from_a_folder_unchanged(files, whole, tmp_path):
    cut = cut_tokenizer(files, [np.array(whole.encode(TEXT))])
    cut.tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.encode(TEXT) == cut.tokenizer.encode(TEXT)
    assert again.bos_token_id == again.eos_token_id == cut.tokenizer.get_vocab()[END]


def test_an_id_beyond_the_vocabulary_is_refused(files, whole):
    with pytest.raises(OptionError, match=f"token {len(whole)} is beyond"):
        cut_tokenizer(files, [np.array([0, len(whole)])])


def test_a_folder_without_the_files_is_named(tmp_path):
    with pytest.raises(LeakageError, match=r"vocab\.json and merges\.txt"):
        gpt2_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("merges", "message"),
    [("t h\nthe\n", "merges.txt, line 3"), ("qq ww\n", "merges ('qq', 'ww'), which vocab.json lacks")],
)
def test_a_broken_merge_and_one_of_another_vocabulary_are_named(files, tmp_path, merges, message):
    (tmp_path / "vocab.json").write_bytes((files / "vocab.json").read_bytes())
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    with pytest.raises(LeakageError, match=re.escape(message)):
        gpt2_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "vocabulary", ["1.5", "{}", '{"a": 0}', f'{{"{END}": 0, "a": 2}}', f'{{"{END}": 0, "a": "1"}}', f'{{"{END}": 9e9}}']
)
def test_a_vocabulary_of_another_kind_is_named(files, tmp_path, vocabulary):
    (tmp_path / "vocab.json").write_text(vocabulary, encoding="utf-8")
    (tmp_path / "merges.txt").write_bytes((files / "merges.txt").read_bytes())
    with pytest.raises(LeakageError, match=re.escape("vocab.json: expected tokens numbered from 0")):
        gpt2_tokenizer(tmp_path)


@pytest.mark.skipif(not os.environ.get("LEAKAGE_DATA"), reason="LEAKAGE_DATA names no folder with the public data")
def test_public_pairs_are_cut_up_as_gpt2_does():
    folder = Path(os.environ["LEAKAGE_DATA"])
    rows = np.load(folder / "lm_extraction" / "train_suffix.npy", allow_pickle=False)[:300].astype(np.int64)
    cut, gpt2 = cut_tokenizer(folder / "gpt2", [rows]), gpt2_tokenizer(folder / "gpt2")
    texts = gpt2.batch_decode(rows)
    assert cut.tokenizer.batch_decode(cut.renumber(rows)) == texts
    # A piece cut at a fixed place need not be GPT-2's own choice of tokens: what it would choose may be gone.
    usual = [(text, np.array(ids)) for text, ids in zip(texts, gpt2(texts)["input_ids"], strict=True)]
    covered = [(text, ids) for text, ids in usual if cut.covers(ids).all()]
    assert len(covered) > 250
    for text, ids in covered:
        assert cut.tokenizer.encode(text) == cut.renumber(ids).tolist()
