"""What every architecture must do alike: go on from a state, pass masks over, be saved, and live in the harness."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries.generate import make_canaries
from leakage_tasks.harness.generation import request
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.targets import CausalTarget
from tests.models.families import FAMILIES, tiny

ALPHABET = "abcdefghij 0123456789.\n"
EVERY = pytest.mark.parametrize("family", FAMILIES)


def some_ids(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(25, (rows, length), generator=torch.Generator().manual_seed(seed))


@EVERY
@torch.no_grad()
@pytest.mark.parametrize("cuts", [[1] * 19, [7, 12], [18, 1]])
def test_a_text_read_in_parts_gets_the_logits_of_the_whole(family, cuts):
    model, ids = tiny(family), some_ids(3, 19)
    state, parts = None, []
    for part in ids.split(cuts, dim=1):
        out = model(part, past_key_values=state, use_cache=True)
        state, parts = out.past_key_values, [*parts, out.logits]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(ids).logits, atol=1e-5, rtol=0)


@EVERY
@torch.no_grad()
def test_rows_of_the_state_can_be_picked(family):
    model, ids = tiny(family), some_ids(3, 9)
    state, rows, tail = model(ids, use_cache=True).past_key_values, torch.tensor([2, 0, 2, 1]), some_ids(4, 3, 2)
    picked = model(tail, past_key_values=tuple(part[rows] for part in state)).logits
    fresh = model(torch.cat([ids[rows], tail], dim=1)).logits[:, -3:]
    torch.testing.assert_close(picked, fresh, atol=1e-5, rtol=0)


@EVERY
@torch.no_grad()
def test_masked_places_leave_no_trace(family):
    model, ids = tiny(family), some_ids(4, 12)
    mask = torch.tensor([[1] * 12, [0] * 9 + [1] * 3, [1] * 6 + [0] * 6, [0, 1, 0, 1, 1, 0, 0, 1] + [1] * 4])
    out = model(ids, attention_mask=mask, use_cache=True)
    for row in range(4):
        seen = mask[row].bool()
        alone = model(ids[row, seen][None], use_cache=True)
        torch.testing.assert_close(out.logits[row, seen], alone.logits[0], atol=1e-5, rtol=0)
        for kept, state in zip(out.past_key_values, alone.past_key_values, strict=True):
            torch.testing.assert_close(kept[row], state[0], atol=1e-5, rtol=0)


@EVERY
@torch.no_grad()
def test_a_row_masked_throughout_keeps_its_state(family):
    model = tiny(family)
    before = model(torch.tensor([[3, 4], [5, 6]]), use_cache=True).past_key_values
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    after = model(torch.tensor([[7], [8]]), attention_mask=mask, past_key_values=before).past_key_values
    assert all(torch.equal(new[0], old[0]) for new, old in zip(after, before, strict=True))
    assert not torch.equal(after[0][1], before[0][1])


@EVERY
@torch.no_grad()
def test_vectors_may_stand_in_the_place_of_tokens(family):
    model, ids = tiny(family), some_ids(2, 6)
    vectors = model.get_input_embeddings()(ids)
    assert torch.equal(model(inputs_embeds=vectors).logits, model(ids).logits)


@EVERY
def test_dropout_acts_in_training_alone_and_none_of_it_draws_nothing(family):
    ids = some_ids(2, 9)
    plain, dropping = tiny(family), tiny(family, dropout=0.5)
    assert torch.equal(dropping(ids).logits, plain(ids).logits)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        before = torch.get_rng_state()
        assert torch.equal(plain.train()(ids).logits, plain.eval()(ids).logits)
        assert torch.equal(torch.get_rng_state(), before)
        assert not torch.equal(dropping.train()(ids).logits, dropping(ids).logits)


@EVERY
def test_one_layer_drops_out_as_well_and_without_a_warning(family, recwarn):
    model, ids = tiny(family, num_hidden_layers=1, dropout=0.5).train(), some_ids(2, 9)
    with torch.random.fork_rng(devices=[]):
        assert not torch.equal(model(ids).logits, model(ids).logits)
    assert not [warning for warning in recwarn if "dropout" in str(warning.message)]


@EVERY
@torch.no_grad()
def test_saved_and_loaded_by_the_auto_classes_it_is_the_same_model(family, tmp_path):
    model, ids = tiny(family, dropout=0.25), some_ids(2, 9)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.config.dropout == 0.25
    assert (tmp_path / "model.safetensors").is_file()
    assert torch.equal(loaded(ids).logits, model(ids).logits)


@EVERY
def test_sizes_left_out_are_those_of_the_papers_lstm(family):
    made = type(tiny(family).config)()
    assert (made.vocab_size, made.hidden_size, made.num_hidden_layers, made.dropout) == (105, 200, 2, 0.0)


# -- searched, and in the harness ---------------------------------------------------------------------------


@EVERY
def test_the_fast_targets_cache_changes_no_rank_and_no_cost(family):
    tokenizer = char_tokenizer(ALPHABET)
    canary = make_canaries("ab {digits:3}.", 1, seed=3)[0]
    model, proof = tiny(family, len(tokenizer)), {"stopping": "proven"}
    cached, anew = (
        run_attack("shortest-path", CausalTarget(model, tokenizer, cached=cached), [canary], values=proof)[0]
        for cached in (True, False)
    )
    assert [guess.text for guess in cached.guesses] == [guess.text for guess in anew.guesses]
    assert [guess.score for guess in cached.guesses] == pytest.approx([guess.score for guess in anew.guesses], abs=1e-4)
    ids = torch.tensor([[0, *tokenizer.encode(canary.text)]])
    with torch.no_grad():
        costs = -model(ids).logits.log_softmax(-1)[0, :-1].gather(-1, ids[0, 1:, None]) / torch.log(torch.tensor(2.0))
    found = CausalTarget(model, tokenizer).log_perplexity([canary.text])[0]
    assert found == pytest.approx(float(costs.sum()), abs=1e-4)


@pytest.fixture(scope="module", params=FAMILIES)
def harness(request, tmp_path_factory):
    from lm_eval.models.huggingface import HFLM

    folder, tokenizer = tmp_path_factory.mktemp("saved"), char_tokenizer(ALPHABET)
    tiny(request.param, len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return [HFLM(str(folder), device="cpu", batch_size=size) for size in (1, 2)]


@pytest.mark.parametrize("extra", [{}, {"num_beams": 3}])
def test_generation_does_not_depend_on_the_company(harness, extra):
    options = {"until": ["zz"], "max_gen_toks": 16, **extra}
    contexts = [request("generate_until", {}, (text, options), place) for place, text in enumerate(["ab 12.", "j"])]
    alone, together = (lm.generate_until(contexts, disable_tqdm=True) for lm in harness)
    assert alone == together
    assert all(len(text) > 0 for text in together)


def test_the_harness_runs_our_tasks_on_it(harness, tmp_path):
    held_out = tmp_path / "heldout.txt"
    held_out.write_text("abc 123.\nfed 90.\n")
    names = ["canary_exposure", "heldout_bits_per_byte"]
    given = {"canaries": str(written(tmp_path)), "text": str(held_out)}
    done = evaluate_tasks(harness[1], names, given)["results"]
    assert 0 < done["heldout_bits_per_byte"]["bits_per_byte,none"] < 20
    assert 0 <= done["canary_exposure"]["exposure_x1,none"] <= 10


def written(folder):
    from leakage_tasks.canaries import write_manifest

    path = folder / "canaries.jsonl"
    write_manifest(make_canaries("ab {digits:3}.", 1, controls=1, seed=3), path)
    return path
