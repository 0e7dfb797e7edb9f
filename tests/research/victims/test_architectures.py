"""The lab's networks: the sizes of Table 1, and made the same again."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.architectures import ARCHITECTURES, build
from leakage_tasks.targets import CausalTarget

TABLE_1 = [name for name in ARCHITECTURES if name != "transformer"]


def over(entries: int):
    """A tokenizer of so many entries."""
    return char_tokenizer(chr(200 + number) for number in range(entries - 2))


@pytest.mark.parametrize("vocabulary", [50, 105])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_has_the_papers_number_of_parameters(name, vocabulary):
    model = build(name, over(vocabulary))
    assert model.num_parameters() == pytest.approx(620_000, abs=5_000)
    assert model.get_output_embeddings().weight.shape[0] == vocabulary


@pytest.mark.parametrize("name", TABLE_1)
def test_its_name_says_its_layers_and_units(name):
    config = build(name, over(50)).config
    kind, _, sizes = name.partition("-")
    assert config.model_type == f"char_{kind}"
    assert sizes == f"{config.num_hidden_layers}x{config.hidden_size}"


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name.startswith("wavenet")])
def test_a_wavenet_sees_the_papers_sequence_of_20_characters(name):
    assert build(name, over(50)).config.receptive_field >= 20


def test_units_change_the_width_and_nothing_else():
    usual, narrow = (build("lstm-2x200", over(50), units=units).config for units in (None, 50))
    assert (usual.hidden_size, narrow.hidden_size) == (200, 50)
    assert usual.embedding_size == narrow.embedding_size
    assert build("transformer", over(50), units=64).config.hidden_size == 64


def test_a_vocabulary_of_words_makes_a_larger_network_with_an_ordinary_embedding():
    model = build("lstm-2x200", over(5_000))
    assert model.config.embedding_size == 128
    assert model.num_parameters() > 2_000_000


def test_the_seed_makes_the_weights_and_disturbs_nothing():
    before = torch.get_rng_state()
    first, again, other = (build("gru-1x370", over(20), seed=seed).embedding.weight for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("lstm-3x100", {}, "architecture is 'lstm-3x100': use one of gru-1x370"),
        ("cnn-2x188", {"units": 0}, "units is 0"),
        ("cnn-2x188", {"dropout": 1.0}, "dropout is 1.0"),
        ("transformer", {"units": 100}, "multiple of 8"),
    ],
)
def test_what_makes_no_network_is_refused(name, options, words):
    with pytest.raises(OptionError, match=words):
        build(name, over(20), **options)


def test_the_transformer_is_a_stock_one_whose_cached_steps_cost_the_same(tmp_path):
    tokenizer = over(40)
    model = build("transformer", tokenizer, dropout=0.1)
    assert model.config.max_position_embeddings >= 512
    assert model.config.hidden_dropout == model.config.attention_dropout == 0.1
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(loaded).__module__.startswith("transformers.")
    text = "".join(chr(200 + number) for number in range(30))
    one, other = CausalTarget(model.eval(), tokenizer), CausalTarget(loaded, tokenizer)
    assert one.log_perplexity([text]) == pytest.approx(other.log_perplexity([text]), abs=1e-4)
