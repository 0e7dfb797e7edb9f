"""Tokens that no encoding holds are left out of the walk of the vocabulary, and no filling is lost by it."""

import random

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.compatibility.tokenizers import TOKENIZERS, tokenizer
from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.canaries import Canary, parse_template
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.tokens import token_paths as layout
from leakage_tasks.targets.tokens import vocabulary
from leakage_tasks.targets.tokens.automaton import AutomatonPaths
from leakage_tasks.targets.tokens.token_paths import lay_out
from leakage_tasks.targets.tokens.tries import Tries
from leakage_tasks.targets.tokens.vocabulary import token_pieces, unproduced
from tests.attacks.visits import visits_of
from tests.oracles import costs_of_rows
from tests.targets.tokens.test_token_paths import all_fillings, encoder

TEMPLATE = "the pin is {digits:4}."


def every_piece(made, monkeypatch):
    """The text of each token, those that no encoding holds included."""
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary, "unproduced", lambda tokenizer, pieces: set())
        return token_pieces(made, len(made))


def token(made, name):
    return made.convert_tokens_to_ids(name)


@pytest.mark.parametrize("kind", ["byte fallback", "Gemma"])
def test_the_byte_of_a_character_that_is_a_token_is_left_out_and_any_other_kept(kind, monkeypatch):
    made = tokenizer(kind)
    left_out = unproduced(made, every_piece(made, monkeypatch))
    for character in "4t.":
        assert token(made, f"<0x{ord(character):02X}>") in left_out
        assert token(made, character) not in left_out
    assert token(made, "<0x20>") in left_out
    for character in "P\n~":
        assert token(made, f"<0x{ord(character):02X}>") not in left_out


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_no_text_holds_a_token_that_was_left_out(kind, monkeypatch):
    made, draw = tokenizer(kind), random.Random(kind)
    left_out = unproduced(made, every_piece(made, monkeypatch))
    alphabet = [*"the pin is 0123456789.-,:\n\tPTxyé~▁ ", "  ", "the ", " is", "12", "4\n", "<0x34>"]
    texts = ["".join(draw.choices(alphabet, k=draw.randint(1, 30))) for _ in range(2000)]
    met = {each for row in made(texts, add_special_tokens=False)["input_ids"] for each in row}
    assert not met & left_out


def merges_of(vocabulary, merges, *decoder, **options):
    backend = Tokenizer(models.BPE({name: place for place, name in enumerate(vocabulary)}, merges, **options))
    backend.decoder = decoders.Sequence([*decoder, decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="<s>")


@pytest.mark.parametrize(
    ("merges", "options", "left_out"),
    [
        ([("1", "2")], {}, {"123", "23"}),
        # "12" is merged first, so that "23" is not met in "123", and "123" is never made of "1" and "23".
        ([("1", "2"), ("2", "3"), ("1", "23")], {}, {"123"}),
        ([("1", "2"), ("2", "3"), ("12", "3")], {}, set()),
        # A whole word that is a token is taken before any merge.
        ([("1", "2")], {"ignore_merges": True}, set()),
        # Chance decides which merges are made.
        ([("1", "2")], {"dropout": 0.5}, set()),
    ],
)
def test_tokens_that_no_merge_leads_to_are_left_out(merges, options, left_out, monkeypatch):
    made = merges_of(["<s>", "1", "2", "3", "12", "23", "123"], merges, **options)
    found = unproduced(made, every_piece(made, monkeypatch))
    assert {made.convert_ids_to_tokens(each) for each in found} == left_out


def test_the_byte_of_a_character_that_only_the_decoder_makes_of_a_token_is_kept(monkeypatch):
    decoder = decoders.Replace("a", "b"), decoders.ByteFallback()
    made = merges_of(["<s>", "a", "<0x62>"], [], *decoder, byte_fallback=True)
    assert made("b", add_special_tokens=False)["input_ids"] == [token(made, "<0x62>")]
    assert not unproduced(made, every_piece(made, monkeypatch))


def test_an_added_token_is_kept_though_no_merge_leads_to_it(monkeypatch):
    made = merges_of(["<s>", "1", "2"], [])
    made.add_tokens(["12"])
    assert made("3112", add_special_tokens=False)["input_ids"][-1] == token(made, "12")
    assert not unproduced(made, every_piece(made, monkeypatch))


@pytest.mark.parametrize("split", [False, True])
def test_a_special_token_is_a_piece_where_the_tokenizer_finds_it_in_a_text(split):
    made = tokenizer("digits merged")
    made.split_special_tokens = split
    pieces = token_pieces(made, len(made))
    found = made("a</s>", add_special_tokens=False)["input_ids"][-1] == made.eos_token_id
    assert (pieces.get(made.eos_token_id) == "</s>") == found == (not split)


@pytest.mark.parametrize("kind", ["byte fallback", "Gemma"])
def test_every_filling_has_exactly_one_path(kind, monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    made, space = tokenizer(kind), parse_template("Pin~\n{digits:2}\n{letters:1}")
    paths = lay_out(space, encoder(made), lambda: token_pieces(made, len(made)), Tries())
    assert isinstance(paths, AutomatonPaths)
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())


@pytest.fixture
def llama_2(monkeypatch):
    """An untrained model with a tokenizer as Llama 2's, whose spaces are not enumerated."""
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    made = tokenizer("byte fallback")
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(made), max_position_embeddings=64, **shape)).eval()
    return CausalTarget(model, made)


def share_of_draws_that_end_in_a_filling(target, draws=500):
    explorer, filled = SearchTree(target, parse_template(TEMPLATE)), 0
    for visit in visits_of(explorer, range(draws), "s"):
        ends = explorer.paths.ends(visit.taken.states)
        paths = explorer.child_paths(visit.nodes, visit.taken[ends])
        counts = np.zeros(len(visit.taken), dtype=np.int64)
        counts[ends] = explorer.paths.count(visit.taken.states[ends], paths)
        filled += int((counts[visit.taken_row] > 0).sum())
    return filled / draws


def test_every_draw_ends_in_a_filling(llama_2, monkeypatch):
    assert share_of_draws_that_end_in_a_filling(llama_2) == 1
    pieces = every_piece(llama_2.tokenizer, monkeypatch)
    monkeypatch.setattr(llama_2, "spelling", lambda: pieces)
    assert share_of_draws_that_end_in_a_filling(llama_2) < 0.1


def direct_costs(target, space):
    """Costs of all fillings in bits, in order of index, by `transformers` alone."""
    texts = [space.fill(filling) for filling in space.enumerate()]
    return np.array(costs_of_rows(target.model, target.tokenizer(texts)["input_ids"]))


@pytest.mark.slow
def test_intervals_of_estimated_ranks_hold_the_true_ones(llama_2):
    secrets = parse_template(TEMPLATE).sample(24, "secrets")
    canaries = [Canary(f"c{place}", TEMPLATE, secret) for place, secret in enumerate(secrets)]
    every = direct_costs(llama_2, canaries[0].space)
    found = run_attack("exposure", llama_2, canaries, budget=1000, values={"method": "estimated"})
    ranks = [int((every <= every[canary.space.index(canary.secret)] + 1e-4).sum()) for canary in canaries]
    held = [each.rank_low <= rank <= each.rank_high for each, rank in zip(found, ranks, strict=True)]
    # All of 24 intervals of 95 % hold in 29 of 100 runs, 20 or fewer in 3.
    assert sum(held) > 20
    assert {each.method for each in found} == {"estimated"}


def test_a_search_finds_ten_fillings_at_once(llama_2, monkeypatch):
    canary = Canary("c", "the pin is {digits:9}.", tuple("123456789"))
    found = run_attack("shortest-path", llama_2, [canary], goal="extraction", budget=500)[0]
    assert len(found.guesses) == 10
    pieces = every_piece(llama_2.tokenizer, monkeypatch)
    monkeypatch.setattr(llama_2, "spelling", lambda: pieces)
    assert not run_attack("shortest-path", llama_2, [canary], goal="extraction", budget=500)[0].guesses
