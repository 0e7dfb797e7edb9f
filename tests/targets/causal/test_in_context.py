"""Scoring in a context, against `transformers` asked directly about every filling."""

import copy
import math
import os
from functools import lru_cache

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from benchmarks.compatibility.tokenizers import TOKENIZERS
from benchmarks.compatibility.tokenizers import tokenizer as made
from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, parse_template, word_list
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.in_context import Lead
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.targets.tokens import token_paths as paths
from tests.oracles import costs_of_rows, direct_costs, letters, merging, tiny_gpt2
from tests.targets.text_models import TextOnly, marked_words

CANARY = Canary("c-1", "the pin is {digits:2}.", ("4", "2"))
BARE = Canary("c-2", "{digits:3}", ("2", "3", "7"))
CONTEXTS = [
    Context(before="\n"),
    Context(before="a code, "),
    Context(before="ab", after="\n"),
    Context("none", "code\n"),
    Context("bos"),
    Context("none"),
]


def brute_costs(model, tokenizer, canary, context, start):
    """Bits of each filling's tokens after those of the context that all fillings leave as they are."""
    space = canary.attack_space
    rows = [
        tokenizer(context.before + space.fill(filling) + context.after, add_special_tokens=False)["input_ids"]
        for filling in space.enumerate()
    ]
    alone = tokenizer(context.before, add_special_tokens=False)["input_ids"] if context.before else []
    kept = min(len(os.path.commonprefix([alone, row])) for row in rows)
    costs = {}
    for length in {len(row) for row in rows}:
        same = [row for row in rows if len(row) == length]
        ids = torch.tensor([start + row for row in same])
        with torch.no_grad():
            log_probabilities = model(ids).logits.double().log_softmax(-1)
        own = log_probabilities[:, :-1].gather(-1, ids[:, 1:, None])[:, max(1, len(start) + kept) - 1 :, 0]
        costs |= {tuple(row): -float(bits) for row, bits in zip(same, own.sum(1) / math.log(2), strict=True)}
    return [costs[tuple(row)] for row in rows]


def expected(tokenizer, canary, context, start=None):
    start = [] if context.start == "none" else [tokenizer.bos_token_id if start is None else start]
    costs = brute_costs(tiny_gpt2(tokenizer), tokenizer, canary, context, start)
    own = costs[canary.attack_space.index(canary.secret)]
    return sum(cost <= own + 1e-4 for cost in costs), own, costs


def check(target, tokenizer, canary, context, **settings):
    rank, own, costs = expected(tokenizer, canary, context)
    texts = [canary.attack_space.fill(filling) for filling in canary.attack_space.enumerate()]
    found = target.in_context(context, canary.attack_space).log_perplexity(texts)
    assert found == pytest.approx(costs, abs=1e-3)
    for attack in settings.pop("attacks"):
        (finding,) = run_attack(attack, target, [canary], context=context, **settings)
        assert finding.rank == rank
        assert finding.log_perplexity == pytest.approx(own, abs=1e-3)


@pytest.mark.parametrize(("tokenizer", "large"), [(letters, True), (merging, False), (merging, True)])
@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_ranks_and_costs_are_those_of_brute_force(tokenizer, context, large, monkeypatch):
    if large:
        monkeypatch.setattr(paths, "ENUMERATE", 10)
    target = CausalTarget(tiny_gpt2(tokenizer()), tokenizer())
    check(target, tokenizer(), CANARY, context, attacks=["exposure", "rank-sample"])


@pytest.mark.parametrize("large", [False, True])
def test_digits_of_a_context_that_join_those_of_the_secret_cost_with_them(large, monkeypatch):
    if large:
        monkeypatch.setattr(paths, "ENUMERATE", 10)
    context, tokenizer = Context(before="pin 1"), merging()
    alone = tokenizer(context.before)["input_ids"]
    keeps = {tokenizer(f"{context.before}{secret}")["input_ids"][: len(alone)] == alone for secret in range(100, 1000)}
    assert keeps == {True, False}
    check(CausalTarget(tiny_gpt2(tokenizer), tokenizer), tokenizer, BARE, context, attacks=["exposure"])


def test_the_usual_context_changes_no_number():
    target = CausalTarget(tiny_gpt2(merging()), merging())
    usual, named = (run_attack("exposure", target, [CANARY], **given) for given in ({}, {"context": Context()}))
    assert usual[0].rank == named[0].rank
    assert usual[0].log_perplexity == named[0].log_perplexity
    text = CANARY.attack_space.fill(CANARY.secret)
    assert usual[0].log_perplexity == pytest.approx(direct_costs(target.model, merging(), [text])[0], abs=1e-3)


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_the_harness_target_reads_the_same_tokens(context):
    lm = HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=64)
    check(HarnessTarget(lm), merging(), CANARY, context, attacks=["rank-sample"])


def test_bos_is_the_tokenizers_own_whatever_the_prefix_token():
    target = CausalTarget(tiny_gpt2(letters()), letters(), prefix_token=9)
    found = target.in_context(Context("bos"), CANARY.space).log_perplexity([CANARY.text])
    assert found == pytest.approx(direct_costs(target.model, letters(), [CANARY.text]), abs=1e-3)
    assert abs(found - target.log_perplexity([CANARY.text]))[0] > 0.01


def test_a_model_of_text_gets_the_context_as_text():
    lm = TextOnly(HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=64))
    context = Context(before="code:", after="!")
    found = HarnessTarget(lm).in_context(context, CANARY.space).log_perplexity([CANARY.text])
    assert lm.asked["loglikelihood"] == [("code:", f"{CANARY.text}!")]
    # The harness gives no prefix token to a text that has a context.
    bare = Context("none", "code:", "!")
    assert found == pytest.approx([expected(merging(), CANARY, bare)[1]], abs=1e-3)


def test_words_that_lose_their_space_at_the_beginning_keep_it_after_a_context():
    tokenizer = marked_words()
    space = parse_template("red {colour:2}", {"colour": word_list("colour", ["red", "green", "blue"])})
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer)
    assert target.in_context(Context(before="green "), space).encode(["red blue green"]) == [[2, 4, 3]]


@lru_cache
def spaced():
    """A byte-level BPE with tokens of two and four white-space characters, which it does not use before a word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    how = {"special_tokens": ["<s>"], "initial_alphabet": alphabet, "show_progress": False}
    texts = ["so\n\n\n\n", "the   pin    ", "is\n \n", "\t\t", "\u3000\u3000"] * 20
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=290, **how))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>")


def costs_after_the_context(model, tokenizer, canary, before):
    """Bits of the tokens of each filling's joint encoding that reach beyond the context, by their offsets."""
    space = canary.attack_space
    texts = [before + space.fill(filling) for filling in space.enumerate()]
    found = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    rows = [[tokenizer.bos_token_id, *ids] for ids in found["input_ids"]]
    held = [sum(end <= len(before) for _, end in spans) for spans in found["offset_mapping"]]
    costs = {number: costs_of_rows(model, rows, 1 + number) for number in set(held)}
    return [costs[number][place] for place, number in enumerate(held)]


WHITE_SPACE = ["so\n\n", "so  ", "so\n\n\n\n", "so\n \n", "\n\n", "so\t\t", "so\u3000\u3000", "so </think>\n\n"]


@pytest.mark.parametrize("before", WHITE_SPACE, ids=repr)
@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_white_space_at_the_end_of_a_context_costs_nothing(before, large, monkeypatch):
    if large:
        monkeypatch.setattr(paths, "ENUMERATE", 10)
    context, space, tokenizer = Context(before=before), CANARY.attack_space, spaced()
    alone, joint = tokenizer([before, f"{before}{CANARY.text}"], add_special_tokens=False)["input_ids"]
    assert joint[: len(alone)] != alone
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer)
    costs = costs_after_the_context(target.model, tokenizer, CANARY, before)
    own = costs[space.index(CANARY.secret)]
    texts = [space.fill(filling) for filling in space.enumerate()]
    assert target.in_context(context, space).log_perplexity(texts) == pytest.approx(costs, abs=1e-3)
    for attack in ("exposure", "rank-sample"):
        (finding,) = run_attack(attack, target, [CANARY], context=context)
        assert finding.rank == sum(cost <= own + 1e-4 for cost in costs)
        assert finding.log_perplexity == pytest.approx(own, abs=1e-3)


BETWEEN_TURNS = Context("none", "<|turn|>user\nhouse<|end|>\n<|turn|>assistant\n", "<|end|>\n", chat=True)


@pytest.mark.parametrize("kind", [kind for kind in TOKENIZERS if kind != "ends of words"])
def test_a_large_space_between_two_turns_is_searched_by_joint_encodings(kind):
    tokenizer = made(kind)
    turns = [AddedToken(name, special=True) for name in ("<|turn|>", "<|end|>")]
    tokenizer.add_tokens(turns, special_tokens=True)
    tokenizer.bos_token = tokenizer.bos_token or "<|turn|>"
    space = parse_template("the pin is {digits:9}.")
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer).in_context(BETWEEN_TURNS, space)
    found = target.paths(space)
    for filling in space.sample(20, 1):
        text = BETWEEN_TURNS.before + space.fill(filling) + BETWEEN_TURNS.after
        joint = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert [*target._lead.tokens, *found.prefix, *found.path(filling)] == joint


def test_white_space_at_the_end_of_a_context_costs_nothing_by_the_harness():
    tokenizer, space = spaced(), CANARY.attack_space
    lm = HFLM(pretrained=tiny_gpt2(tokenizer), tokenizer=tokenizer, batch_size=64)
    costs = costs_after_the_context(lm.model, tokenizer, CANARY, "so\n\n")
    texts = [space.fill(filling) for filling in space.enumerate()]
    found = HarnessTarget(lm).in_context(Context(before="so\n\n"), space).log_perplexity(texts)
    assert found == pytest.approx(costs, abs=1e-3)


def test_a_context_whose_end_joins_the_canary_after_a_token_that_took_a_line_break():
    tokenizer = copy.deepcopy(merging())
    tokenizer.add_tokens([AddedToken("<|user|>", special=True, rstrip=True)], special_tokens=True)
    context = Context(before="<|user|>\n\npin 1")
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer)
    found = target.in_context(context, BARE.space)
    assert found._lead.text == "<|user|>\n\npin"
    assert found._lead.tokens[-2] == tokenizer.convert_tokens_to_ids("<|user|>")


def refused(match, context, canary=CANARY, target=None):
    target = target or CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(TargetError, match=match):
        run_attack("auto", target, [canary], context=context)


def test_nothing_before_a_secret_that_begins_the_text_is_refused():
    refused("canary 'c-2': the first token holds some of the secret.*known=all", Context("none"), BARE)


def test_a_context_that_makes_a_canary_too_long_is_refused():
    refused("canary 'c-1' is 74 tokens long with its context, but the model reads at most 64", Context(before="a" * 60))


def test_bos_on_a_tokenizer_without_one_is_refused():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters().backend_tokenizer, eos_token="\n")
    target = CausalTarget(tiny_gpt2(letters()), tokenizer)
    refused("context=bos: the model's tokenizer has no BOS token: use", Context("bos"), target=target)


@pytest.mark.parametrize("context", [Context("none"), Context("bos"), Context(before="\n")], ids=str)
def test_what_a_model_of_text_cannot_be_given_is_refused(context):
    lm = TextOnly(HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters()))
    refused("TextOnly receives text.*use context=auto or a text", context, target=HarnessTarget(lm))


def test_a_model_that_reads_no_context_is_refused():
    refused("context=none does not apply to this model", Context("none"), target=object())


def test_a_filling_that_alone_joins_the_context_is_refused():
    lead = Lead((0, 5), 1, "x", "")
    assert lead.after([[5, 6], [5]]) == [[6], []]
    with pytest.raises(TargetError, match="joins the context to some fillings and not to others"):
        lead.after([[5, 6], [56]])
