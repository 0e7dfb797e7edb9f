"""A fresh tagger started from word vectors: loaded exactly, kept where frozen, learnt on where not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.tagger.model import fresh_tagger
from leakage_tasks.training.tagger.trainer import NLURecipe, train_tagger
from tests.training.tagger.utterances import made

ROWS = made(24)
VECTORS = {"anna": (0.1, 0.2, 0.3), "OSLO": (0.0, -0.5, 0.25), "in": (1.0, 0.0, 0.5), "rome": (0.7, 0.7, 0.7)}


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in VECTORS.items()))
    return NLURecipe(hidden_size=4, epochs=1, batch_size=8, embeddings=str(path))


def vector(model, tokenizer, word):
    return model.embedding.weight[tokenizer.get_vocab()[word]]


def test_vectors_are_loaded_and_say_the_size(recipe):
    model, tokenizer = fresh_tagger(ROWS, (), recipe, (), seed=0)
    assert model.config.embedding_size == 3
    for word in ("anna", "in", "rome"):
        assert torch.equal(vector(model, tokenizer, word), torch.tensor(VECTORS[word]))
    assert vector(model, tokenizer, "<pad>").tolist() == [0, 0, 0]


def test_the_other_words_start_as_widely_spread_as_the_vectors(recipe):
    with_vectors, tokenizer = fresh_tagger(ROWS, (), recipe, (), seed=0)
    without, _ = fresh_tagger(ROWS, (), replace(recipe, embeddings=None, embedding_size=3), (), seed=0)
    spread = torch.tensor([VECTORS["anna"], VECTORS["in"], VECTORS["rome"]]).std(correction=0)
    torch.testing.assert_close(vector(with_vectors, tokenizer, "boris"), spread * vector(without, tokenizer, "boris"))


def test_words_of_the_validation_rows_are_known_if_they_have_a_vector(recipe):
    checks = [replace(ROWS[0], words=("OSLO", "rains"), tags=("O", "O"))]
    _, tokenizer = fresh_tagger(ROWS, checks, recipe, (), seed=0)
    assert "OSLO" in tokenizer.get_vocab()
    assert "rains" not in tokenizer.get_vocab()


def test_the_share_of_words_found_is_said(recipe, caplog):
    fresh_tagger(ROWS, (), recipe, (), seed=0)
    words = {word for row in ROWS for word in row.words}
    (record,) = caplog.records
    assert f"has 3 of the vocabulary's {len(words)} words" in record.getMessage()


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_vectors_stay_and_others_are_learnt(frozen, recipe):
    trained = train_tagger(ROWS, (), replace(recipe, frozen=frozen), device="cpu")
    for word in ("anna", "in", "rome"):
        assert torch.equal(vector(trained.model, trained.tokenizer, word), torch.tensor(VECTORS[word])) == frozen


def test_a_file_without_a_word_of_the_data_is_refused(recipe, tmp_path):
    (tmp_path / "vectors.txt").write_text("nichts 1 2 3\n")
    with pytest.raises(OptionError, match=r"vectors.txt: has no word of the vocabulary's"):
        fresh_tagger(ROWS, (), recipe, (), seed=0)


def test_the_same_seed_gives_the_same_model_and_leaves_the_random_state_alone(recipe):
    before = torch.get_rng_state()
    one, other, third = (fresh_tagger(ROWS, (), recipe, (), seed=seed)[0].state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not all(torch.equal(one[name], third[name]) for name in one)
