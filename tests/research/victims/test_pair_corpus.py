"""Pairs to be learnt by heart: drawn repeatably, told apart from the filler, written as the public ones are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.victims.corpus import pydoc_topics
from leakage_tasks.research.victims.pair_corpus import PairCorpus, own_pairs, public_pairs, train_byte_level

needs_data = pytest.mark.skipif(
    not os.environ.get("LEAKAGE_DATA"), reason="LEAKAGE_DATA names no folder with the public data"
)


@pytest.fixture(scope="module")
def corpus() -> PairCorpus:
    return own_pairs(50, 12, 8, vocabulary=400)


def rows_of(array: np.ndarray) -> set[tuple[int, ...]]:
    return set(map(tuple, array.tolist()))


def test_own_pairs_are_pieces_of_the_help_text(corpus):
    text = pydoc_topics(held_out=0.0).training
    for prefix, suffix in zip(corpus.prefixes, corpus.suffixes, strict=True):
        # A piece may start or end within a character of several bytes.
        assert corpus.tokenizer.decode([*prefix, *suffix]).strip("\N{REPLACEMENT CHARACTER}") in text


def test_own_pairs_have_the_sizes_asked_for(corpus):
    assert corpus.prefixes.shape == (50, 12)
    assert corpus.suffixes.shape == (50, 8)
    assert corpus.filler.shape[1] == 20
    assert len(corpus.tokenizer) == 400
    assert max(part.max() for part in (corpus.prefixes, corpus.suffixes, corpus.filler)) < 400


def test_no_prefix_or_suffix_comes_twice_or_ends_the_filler(corpus):
    prefixes, suffixes = rows_of(corpus.prefixes), rows_of(corpus.suffixes)
    assert len(prefixes) == len(suffixes) == len(corpus)
    assert not rows_of(corpus.filler[:, :12]) & prefixes
    assert not rows_of(corpus.filler[:, 12:]) & suffixes


def test_another_seed_draws_other_pairs(corpus):
    other = own_pairs(50, 12, 8, vocabulary=400, seed=1)
    assert len(rows_of(other.prefixes) & rows_of(corpus.prefixes)) < 10


@pytest.mark.slow
def test_another_process_draws_the_same_pairs(corpus):
    program = (
        "import json\n"
        "from leakage_tasks.research.victims.pair_corpus import own_pairs\n"
        "corpus = own_pairs(50, 12, 8, vocabulary=400)\n"
        "print(json.dumps([corpus.prefixes.tolist(), corpus.filler.tolist(), corpus.tokenizer.get_vocab()]))\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3]), "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = [corpus.prefixes.tolist(), corpus.filler.tolist(), corpus.tokenizer.get_vocab()]
    assert json.loads(printed) == here


def test_the_learnt_vocabulary_holds_every_byte():
    tokenizer = train_byte_level("nothing but ascii", 260)
    assert tokenizer.decode(tokenizer.encode("žluťoučký 猫\x00")) == "žluťoučký 猫\x00"


def test_saved_pairs_have_the_public_layout(corpus, tmp_path):
    corpus.save(tmp_path / "pairs")
    for name, rows in (("train_prefix.npy", corpus.prefixes), ("train_suffix.npy", corpus.suffixes)):
        saved = np.load(tmp_path / "pairs" / name, allow_pickle=False)
        assert saved.dtype == np.uint16
        assert (saved == rows).all()


def test_too_many_own_pairs_say_how_many_there_are():
    with pytest.raises(OptionError, match=r"count is 1000000: .* yields \d+ pairs of 100 tokens at most"):
        own_pairs(1_000_000, vocabulary=400)


def test_a_vocabulary_without_room_for_the_bytes_is_refused():
    with pytest.raises(OptionError, match="vocabulary is 256: use 257 or more"):
        own_pairs(10, vocabulary=256)


def test_without_the_data_the_remedy_is_named(monkeypatch):
    monkeypatch.delenv("LEAKAGE_DATA", raising=False)
    with pytest.raises(LeakageError, match="set LEAKAGE_DATA"):
        public_pairs(10)


def test_an_empty_data_folder_is_named(tmp_path):
    with pytest.raises(LeakageError, match=r"train_prefix\.npy: .* set LEAKAGE_DATA"):
        public_pairs(10, data=tmp_path)


@needs_data
def test_public_pairs_are_the_published_ones_renumbered():
    from leakage_tasks.research.victims.cut_tokenizer import gpt2_tokenizer

    folder = Path(os.environ["LEAKAGE_DATA"])
    corpus, gpt2 = public_pairs(100), gpt2_tokenizer(folder / "gpt2")
    parts = [
        np.load(folder / "lm_extraction" / f"train_{part}.npy", allow_pickle=False) for part in ("prefix", "suffix")
    ]
    published = rows_of(np.concatenate(parts, axis=1))
    names = corpus.tokenizer.convert_ids_to_tokens
    pairs = np.concatenate([corpus.prefixes, corpus.suffixes], axis=1)
    back = [gpt2.convert_tokens_to_ids(names(row)) for row in (*pairs.tolist(), *corpus.filler[:50].tolist())]
    assert len(back) == 150
    assert set(map(tuple, back)) <= published


@needs_data
def test_more_public_pairs_than_there_are_is_refused():
    with pytest.raises(OptionError, match=r"count is 15000: there are \d+ different"):
        public_pairs(15_000)
