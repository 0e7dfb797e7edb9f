"""Suffixes through text: what is drawn and what it costs, against plain computations on token ids."""

import collections
import json
import math

import numpy as np
import pytest
import torch
from lm_eval.api.model import CachingLM
from scipy.stats import chisquare

from leakage_tasks.attacks.suffix.attack import attack_pairs
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.harness.suffixes import MISSING, HarnessSuffixes
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from tests.oracles import letters, merging, tiny_gpt2
from tests.targets.text_models import (
    TextOnly,
    direct_bits,
    hf,
    marked_words,
    merged_line_end,
    named,
    scheme_probabilities,
)

PLAIN = DecodingConfig(temperature=1, top_p=1)
NARROW = DecodingConfig(temperature=0.8, top_p=0.7)
GREEDY = DecodingConfig("greedy")


def ids(text, tokenizer=None):
    return tuple((tokenizer or letters())(text, add_special_tokens=False)["input_ids"])


def numbers(prefixes, samples, length):
    return np.random.default_rng(5).random((prefixes, samples, length))


def draw(target, prefix, samples, length, scheme=PLAIN):
    return target.draw([prefix], numbers(1, samples, length), scheme)[0]


def answering(*texts, tokenizer=None, name="TextOnly"):
    """A model that gives ``texts`` in turn."""
    return named(name)(hf(tokenizer or letters()), lambda context, settings, place: texts[place % len(texts)])


def test_room_is_left_for_what_a_model_adds():
    target = HarnessSuffixes(TextOnly(hf(letters())))
    assert (target.vocabulary, target.max_length) == (len(letters()), None)
    assert HarnessSuffixes(hf(letters(), max_length=40)).max_length == 38


@pytest.mark.parametrize("scheme", [PLAIN, DecodingConfig(temperature=1.5, top_p=0.9, top_k=7)], ids=str)
def test_draws_come_as_often_as_the_scheme_has_them(scheme):
    prefix, samples, end = ids("the pin is"), 3000, letters().eos_token_id
    model = tiny_gpt2(letters(), sharpness=4.0)
    expected = scheme_probabilities(model, prefix, 2, scheme.temperature, scheme.top_k, scheme.top_p, end)
    torch.manual_seed(3)
    draws = draw(HarnessSuffixes(hf(letters(), model)), prefix, samples, 2, scheme)
    counts = collections.Counter(tuple(row) for row in draws.tokens[draws.of_draw].tolist())
    # What is no text is drawn, too, and comes back as something else or not at all: one class with what is rare.
    special = set(letters().all_special_ids)
    spoken = {row: share for row, share in expected.items() if not special.intersection(row)}
    assert all(row in spoken or MISSING in row or special.intersection(row) for row in counts)
    common = {row: share for row, share in spoken.items() if samples * share >= 5}
    observed = [counts[row] for row in common]
    shares = [*common.values(), 1 - sum(common.values())]
    assert len(common) > 8
    assert chisquare([*observed, samples - sum(observed)], samples * np.array(shares)).pvalue > 1e-3


@pytest.mark.parametrize("prefix", ["the pin is", "the pin is ", "code\n \n"])
@pytest.mark.parametrize("wrap", [TextOnly, lambda lm: lm], ids=["text only", "hf"])
def test_draws_cost_what_token_ids_do(prefix, wrap):
    torch.manual_seed(1)
    draws = draw(HarnessSuffixes(wrap(hf(letters()))), ids(prefix), 30, 4)
    whole = [place for place, row in enumerate(draws.tokens) if row.min() > 1]
    assert len(whole) > 5
    for place in whole:
        expected = direct_bits(tiny_gpt2(letters()), ids(prefix), draws.tokens[place])
        assert draws.own[place].sum() == pytest.approx(expected, abs=1e-3)
        assert np.ptp(draws.own[place]) == 0
    assert draws.totals_only
    assert draws.entropy is draws.margin is None


def test_each_prefix_has_its_own_draws_of_one_call():
    lm = TextOnly(hf(letters()))
    prefixes = [ids("the pin is "), ids("some letter")]
    found = HarnessSuffixes(lm).draw(prefixes, numbers(2, 7, 3), PLAIN)
    assert [len(draws.of_draw) for draws in found] == [7, 7]
    contexts = [context for context, _ in lm.asked["generate_until"]]
    assert contexts == ["the pin is "] * 7 + ["some letter"] * 7


def test_distinct_draws_are_counted_and_scored_once():
    lm = answering("ab", "cd", "ab", "ef", "cd", "ab")
    draws = draw(HarnessSuffixes(lm), ids("x"), 6, 2)
    assert draws.tokens.tolist() == [list(ids("ab")), list(ids("cd")), list(ids("ef"))]
    assert draws.of_draw.tolist() == [0, 1, 0, 2, 1, 0]
    assert sorted(lm.asked["loglikelihood"][1:]) == [("x", "ab"), ("x", "cd"), ("x", "ef")]


def test_a_draw_that_ends_early_is_filled_up_at_the_cost_of_a_blind_guess():
    draws = draw(HarnessSuffixes(answering("ab", "")), ids("the pin"), 2, 5)
    blind = math.log2(len(letters()))
    assert draws.tokens.tolist() == [[*ids("ab"), MISSING, MISSING, MISSING], [MISSING] * 5]
    known = direct_bits(tiny_gpt2(letters()), ids("the pin"), ids("ab"))
    assert draws.own.sum(1) == pytest.approx([known + 3 * blind, 5 * blind], abs=1e-3)


def test_what_is_missing_has_no_text():
    target = HarnessSuffixes(answering("ab"))
    assert target.decode([[*ids("ab"), MISSING], [MISSING]]) == ["ab", ""]


def test_a_longer_answer_is_cut():
    draws = draw(HarnessSuffixes(answering("abcdefg")), ids("x"), 1, 3)
    assert draws.tokens.tolist() == [list(ids("abc"))]
    assert draws.own.sum() == pytest.approx(direct_bits(tiny_gpt2(letters()), ids("x"), ids("abc")), abs=1e-3)


def test_a_draw_that_shares_a_token_with_the_prefix_costs_blind_guesses():
    tokenizer, rest = merging(), "n is 12."
    shorter, whole = ids("the pi", tokenizer), ids("the pi" + rest, tokenizer)
    assert len(whole) > len(shorter)
    assert whole[: len(shorter)] != shorter
    draws = draw(HarnessSuffixes(answering(rest, tokenizer=tokenizer)), shorter, 1, 8)
    assert draws.own.sum() == pytest.approx(8 * math.log2(len(tokenizer)))
    assert tokenizer.decode([token for token in draws.tokens[0] if token != MISSING]) == rest


def test_greedy_is_the_likeliest_token_each_time():
    tokenizer = letters()
    lm = TextOnly(hf(tokenizer))
    prefix = ids("x 12")
    path = list(prefix)
    for _ in range(5):
        with torch.no_grad():
            path.append(int(tiny_gpt2(tokenizer)(torch.tensor([path])).logits[0, -1].argmax()))
    draws = draw(HarnessSuffixes(lm), prefix, 9, 5, GREEDY)
    assert draws.tokens.tolist() == [path[len(prefix) :]]
    assert draws.of_draw.tolist() == [0]
    assert len(lm.asked["generate_until"]) == 1


@pytest.mark.parametrize(("scheme", "told"), [(PLAIN, True), (NARROW, False), (GREEDY, False)], ids=str)
def test_the_true_suffix_costs_what_token_ids_do(scheme, told):
    tokenizer = merging()
    whole = ids("the pin is 1234, code ab12.", tokenizer)
    pairs = [(whole[:3], whole[3:7]), (whole[1:4], whole[4:8])]
    found = HarnessSuffixes(TextOnly(hf(tokenizer))).score(*zip(*pairs, strict=True), scheme)
    for (prefix, suffix), scored in zip(pairs, found, strict=True):
        assert scored.own == pytest.approx([direct_bits(tiny_gpt2(tokenizer), prefix, suffix) / 4] * 4, abs=1e-3)
        assert scored.drawn is (scored.own if told else None)


def test_costs_after_a_prefix_are_those_of_token_ids():
    prefix, rows = ids("the pin "), [ids("is"), ids("x"), (*ids("ab"), MISSING)]
    found = HarnessSuffixes(TextOnly(hf(letters()))).costs_after([prefix] * len(rows), rows)
    assert [len(each) for each in found] == [2, 1, 3]
    model = tiny_gpt2(letters())
    expected = [direct_bits(model, prefix, [token for token in row if token != MISSING]) for row in rows]
    expected[2] += math.log2(len(letters()))
    assert [each.sum() for each in found] == pytest.approx(expected, abs=1e-3)


def test_pairs_that_do_not_survive_the_way_through_text_are_told_apart():
    tokenizer = merging()
    rng = np.random.default_rng(0)
    whole = ids("the pin is 1234, code ab12. the pin is 9988, code ab7.", tokenizer)
    told = [whole[at : at + 6] for at in range(len(whole) - 6)]
    random = [tuple(int(token) for token in rng.integers(1, len(tokenizer), 6)) for _ in range(60)]
    target = HarnessSuffixes(TextOnly(hf(tokenizer)))
    for row in told + random:
        text = [tokenizer.decode(row[:n], clean_up_tokenization_spaces=False) for n in (3, 6)]
        survives = all(ids(each, tokenizer) == row[:n] for each, n in zip(text, (3, 6), strict=True))
        assert (target.unfit(Pair(0, row[:3], row[3:])) is None) == survives
    fit = [target.unfit(Pair(0, row[:3], row[3:])) is None for row in told + random]
    assert all(fit[: len(told)])
    assert not all(fit[len(told) :])


def test_a_special_token_in_the_suffix_is_unfit_and_one_in_the_prefix_is_not():
    tokenizer = merging()
    target, end = HarnessSuffixes(TextOnly(hf(tokenizer))), tokenizer.eos_token_id
    the, pin = ids("the", tokenizer), ids(" pin is", tokenizer)
    assert "special" in target.unfit(Pair(0, the, (*pin, end)))
    assert target.unfit(Pair(0, (end, *the), pin)) is None


def test_white_space_that_shares_a_token_with_what_stands_before_it_is_unfit():
    tokenizer = merged_line_end()
    target = HarnessSuffixes(TextOnly(hf(tokenizer)))
    a, b, line_end, merged = ids("ab\na\n", tokenizer)
    assert target.unfit(Pair(0, (a, b, line_end), (b, b))) is None
    assert "shares a token" in target.unfit(Pair(0, (b, merged), (b, b)))
    assert "only white space" in target.unfit(Pair(0, (line_end, line_end), (b, b)))


def test_a_model_that_speaks_its_suffix_alone_cannot_return_a_space_that_is_lost():
    tokenizer = marked_words()
    red, green, blue = ids("red green blue", tokenizer)
    pair = Pair(0, (red, green), (blue, red))
    assert HarnessSuffixes(TextOnly(hf(tokenizer))).unfit(pair) is None
    assert "suffix alone" in HarnessSuffixes(hf(tokenizer)).unfit(pair)


def test_unfit_pairs_are_errors_where_they_are_used():
    target = HarnessSuffixes(TextOnly(hf(merging())))
    split = (*ids("the pi", merging()), *ids("n", merging()))
    for use in (
        lambda: draw(target, split, 2, 2),
        lambda: target.score([split], [(9, 9)], PLAIN),
        lambda: target.costs_after([split], [(9, 9)]),
    ):
        with pytest.raises(TargetError, match="cannot be passed as text .*--model hf"):
            use()


def test_a_whole_attack_counts_what_it_leaves_out():
    tokenizer = letters()
    texts = ["the pin is 1234", "The Tin is 9988"]
    pairs = [Pair(place, ids(text)[:8], ids(text)[8:]) for place, text in enumerate(texts)]
    pairs.append(Pair(2, ids("the pin "), (*ids("is 1"), tokenizer.eos_token_id, *ids("23"))))
    lm = answering("is 1234", "is T234", "is", "")
    request = SuffixRequest(PLAIN, samples=8, prefix_lengths=(4,), sample_counts=(2,), keep=2)
    found = attack_pairs(HarnessSuffixes(lm), pairs, request)
    assert "special token" in found[2].extra["left_out"]
    assert not found[2].views
    views = found[0].views
    assert set(views) == {"none", "prefix_4", "samples_2"}
    own = {text: direct_bits(tiny_gpt2(tokenizer), pairs[0].prefix, ids(text)) for text in ("is 1234", "is T234", "is")}
    blind = math.log2(len(tokenizer))
    costs = [own["is 1234"], own["is T234"], own["is"] + 5 * blind, 7 * blind]
    assert views["none"].choices["calibrated"].place == 1 + sum(cost < costs[0] for cost in costs)
    assert views["none"].choices["calibrated"].bits == pytest.approx(min(costs), abs=1e-3)
    assert views["none"].distinct == 4
    assert views["none"].p_z_bits == pytest.approx(costs[0], abs=1e-3)
    assert json.loads(found[0].to_json())["views"]["none"]["choices"]["lowercase"]["wrong"] <= 1


@pytest.mark.parametrize("error", [NotImplementedError("not here\nsee the manual"), KeyError("logprobs")])
def test_a_model_without_log_likelihoods_is_drawn_from_without_costs(error, caplog):
    class Writer(TextOnly):
        def loglikelihood(self, requests):
            raise error

    lm = Writer(hf(letters()), lambda context, settings, place: ["ab", "cd", "ab"][place])
    draws = draw(HarnessSuffixes(lm), ids("x"), 3, 2)
    assert (draws.tokens.tolist(), draws.of_draw.tolist()) == ([list(ids("ab")), list(ids("cd"))], [0, 1, 0])
    assert draws.own is draws.drawn is None
    said = [record.getMessage() for record in caplog.records if "no log-likelihoods" in record.getMessage()]
    assert [type(error).__name__ in each and "\n" not in each for each in said] == [True]


def test_a_figure_that_is_none_is_an_error():
    class Broken(TextOnly):
        def loglikelihood(self, requests):
            return [(float("-inf"), False)] * len(requests)

    with pytest.raises(TargetError, match="not finite"):
        draw(HarnessSuffixes(Broken(hf(letters()))), ids("x"), 2, 2)


def test_the_harness_cache_makes_no_draw_a_repeat(tmp_path):
    inner = TextOnly(hf(letters()))
    target = HarnessSuffixes(CachingLM(inner, str(tmp_path / "cache.db")))
    torch.manual_seed(0)
    found = [draw(target, ids("the pin"), 20, 4) for _ in range(2)]
    assert len(inner.asked["generate_until"]) == 40
    assert all(len(draws.tokens) > 3 for draws in found)
    rows = [draws.tokens[draws.of_draw].tolist() for draws in found]
    assert rows[0] != rows[1]


def test_a_model_that_never_differs_is_pointed_out(caplog):
    target = HarnessSuffixes(answering("ab"))
    draw(target, ids("x"), 199, 2)
    assert "does not sample" not in caplog.text
    draw(target, ids("x"), 200, 2)
    assert "TextOnly gave one text 200 times after each of 1 prefixes" in caplog.text


def test_beams_do_not_go_through_text():
    with pytest.raises(OptionError, match="decoding=beam .* use decoding=sample or greedy"):
        draw(HarnessSuffixes(answering("ab")), ids("x"), 2, 2, DecodingConfig("beam"))


def test_a_model_that_cannot_be_drawn_from_says_so():
    target = HarnessSuffixes(answering("ab", name="GGUFLM"))
    with pytest.raises(TargetError, match="GGUFLM always decodes greedily"):
        draw(target, ids("x"), 2, 2)
    assert draw(target, ids("x"), 2, 2, GREEDY).tokens.tolist() == [list(ids("ab"))]
