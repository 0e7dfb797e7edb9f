"""The attack on token ids, from draws to findings, against figures computed without it."""

import json
import math
import zlib
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch

from leakage_tasks.attacks.suffix.attack import attack_pairs, fit_confidence, uniforms
from leakage_tasks.attacks.suffix.confidences import CONFIDENCES
from leakage_tasks.attacks.suffix.finding import HEADLINE, selections, suffix_finding_from_json
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes
from tests.oracles import merging, tiny_gpt2
from tests.targets.suffix_oracle import bits_of, direct_logits, prefixes_of

PREFIX, SUFFIX = 6, 7
REQUEST = SuffixRequest(scheme=DecodingConfig(top_p=0.9, temperature=0.5), samples=40)


@lru_cache
def target(seed=0):
    return CausalSuffixes(CausalTarget(tiny_gpt2(merging(), seed=seed), merging()))


@lru_cache
def pairs(count=6):
    """Half of them the model's own likely words, so that some are extracted."""
    prefixes = prefixes_of(count, PREFIX)
    likely = target().draw(
        prefixes, np.random.default_rng(5).random((count, 1, SUFFIX)), DecodingConfig(temperature=0.05)
    )
    random = prefixes_of(count, SUFFIX, seed=9)
    suffixes = [each.tokens[0].tolist() if place % 2 else random[place] for place, each in enumerate(likely)]
    return [Pair(3 * place, tuple(prefix), tuple(suffixes[place])) for place, prefix in enumerate(prefixes)]


class Bar(nullcontext):
    """A bar that keeps its updates."""

    def __init__(self):
        super().__init__(self)
        self.updates = []

    def update(self, number):
        self.updates.append(number)


@pytest.mark.parametrize(
    "settings", [{}, {"prefix_lengths": (3,)}, {"scheme": DecodingConfig(decoding="beam", beams=2), "samples": 2}]
)
def test_the_bar_advances_while_the_suffixes_of_a_group_are_drawn(settings):
    bar = Bar()
    attack_pairs(target(), pairs(), replace(REQUEST, **settings), progress=lambda **of: bar)
    assert sum(bar.updates) == len(pairs())
    assert len(bar.updates) > 2


def test_the_headline_is_what_the_formulas_make_of_the_draws():
    for pair, finding in zip(pairs(), attack_pairs(target(), pairs(), REQUEST), strict=True):
        drawn = target().draw([pair.prefix], uniforms(0, pair, 40)[None], REQUEST.scheme)[0]
        every = [tuple(drawn.tokens[row]) for row in drawn.of_draw]
        weights = {}
        for row in set(every):
            logits = direct_logits(target().sampler.target.model, pair.prefix, [row])
            weights[row] = every.count(row) * 2.0 ** -float(bits_of(logits, [row]).sum())
        best = max(weights, key=weights.__getitem__)
        view = finding.views[HEADLINE]
        choice = view.choices["calibrated"]
        assert choice.confidence == pytest.approx(weights[best] / sum(weights.values()), rel=1e-4)
        assert choice.wrong == np.mean(np.array(best) != np.array(pair.suffix))
        assert (choice.count, view.distinct) == (every.count(best), len(weights))
        order = sorted(weights, key=weights.__getitem__, reverse=True)
        assert choice.place == (order.index(pair.suffix) + 1 if pair.suffix in weights else None)
        own = bits_of(direct_logits(target().sampler.target.model, pair.prefix, [pair.suffix]), [pair.suffix])
        assert view.own_bits == pytest.approx(float(own.sum()), abs=1e-3)
        assert view.reachable == (view.p_z_bits is not None)


def test_every_confidence_picks_by_its_own_formula():
    (pair, *_), compared = pairs(), target(4)
    request = replace(REQUEST, confidence="zlib", keep=1)
    (finding,) = attack_pairs(target(), [pair], request, compared_with=compared)
    drawn = target().draw([pair.prefix], uniforms(0, pair, 40)[None], request.scheme)[0]
    texts = merging().batch_decode(drawn.tokens.tolist(), clean_up_tokenization_spaces=False)
    bits = bits_of(direct_logits(target().sampler.target.model, pair.prefix, drawn.tokens), drawn.tokens).mean(1)
    other = bits_of(direct_logits(compared.sampler.target.model, pair.prefix, drawn.tokens), drawn.tokens).mean(1)
    lowered = []
    for text in texts:
        row = merging()(text.lower(), add_special_tokens=False)["input_ids"]
        lowered.append(bits_of(direct_logits(target().sampler.target.model, pair.prefix, [row]), [row]).mean())
    same = np.array([text == text.lower() for text in texts])
    expected = {
        "perplexity": 2.0**-bits,
        "comparing_lm": 2.0 ** (other - bits),
        "zlib": np.array([len(zlib.compress(text.encode())) for text in texts]) * 2.0**-bits,
        "lowercase": 2.0 ** (np.where(same, bits, lowered) - bits),
    }
    choices = finding.views[HEADLINE].choices
    assert list(choices) == list(CONFIDENCES)
    for name, values in expected.items():
        assert choices[name].confidence == pytest.approx(values.max(), rel=1e-3), name
        assert choices[name].of_headline == pytest.approx(values[expected["zlib"].argmax()], rel=1e-3), name
    assert finding.guesses == (tuple(drawn.tokens[expected["zlib"].argmax()].tolist()),)


def test_sweeps_are_what_runs_at_those_lengths_find():
    request = replace(REQUEST, prefix_lengths=(2, 4, 6), suffix_lengths=(1, 3, 7), sample_counts=(1, 5, 40))
    swept = attack_pairs(target(), pairs(), request)
    for name, cut, short in [
        *((f"prefix_{n}", lambda pair, n=n: Pair(pair.id, pair.prefix[-n:], pair.suffix), REQUEST) for n in (2, 4, 6)),
        *((f"samples_{n}", lambda pair: pair, replace(REQUEST, samples=n)) for n in (1, 5, 40)),
    ]:
        alone = attack_pairs(target(), [cut(pair) for pair in pairs()], short)
        for finding, other in zip(swept, alone, strict=True):
            view, expected = finding.views[name], other.views[HEADLINE]
            assert view.choices["calibrated"].confidence == pytest.approx(
                expected.choices["calibrated"].confidence, rel=1e-3
            )
            assert view.choices["calibrated"].wrong == expected.choices["calibrated"].wrong
            assert (view.distinct, view.samples, view.prefix_length) == (
                expected.distinct, expected.samples, expected.prefix_length
            )  # fmt: skip
            assert view.own_bits == pytest.approx(expected.own_bits, abs=1e-3)


def test_a_shorter_suffix_is_judged_by_the_beginnings_of_the_draws():
    swept = attack_pairs(target(), pairs(), replace(REQUEST, suffix_lengths=(1, 3)))
    for pair, finding in zip(pairs(), swept, strict=True):
        drawn = target().draw([pair.prefix], uniforms(0, pair, 40)[None], REQUEST.scheme)[0]
        for length in (1, 3):
            beginnings = {tuple(row[:length]) for row in drawn.tokens.tolist()}
            view = finding.views[f"suffix_{length}"]
            assert view.distinct == len(beginnings)
            assert (view.choices["calibrated"].place is not None) == (pair.suffix[:length] in beginnings)
            rows = [pair.suffix[:length]]
            own = bits_of(direct_logits(target().sampler.target.model, pair.prefix, rows), rows)
            assert view.own_bits == pytest.approx(float(own.sum()), abs=1e-3)


def test_pairs_of_differing_lengths_go_together():
    mixed = [pairs()[0], Pair(1, pairs()[1].prefix[2:], pairs()[1].suffix[:3]), pairs()[2]]
    together = attack_pairs(target(), mixed, REQUEST)
    for pair, finding in zip(mixed, together, strict=True):
        (alone,) = attack_pairs(target(), [pair], REQUEST)
        assert finding.views[HEADLINE].choices["calibrated"].wrong == alone.views[HEADLINE].choices["calibrated"].wrong
        assert finding.views[HEADLINE].suffix_length == len(pair.suffix)


def test_another_seed_draws_otherwise():
    one, other = (attack_pairs(target(), pairs(), replace(REQUEST, seed=seed)) for seed in (0, 1))
    assert [each.views[HEADLINE].distinct for each in one] != [each.views[HEADLINE].distinct for each in other]


def test_expected_recall_and_what_is_drawn_agree():
    """Over many pairs the share drawn is within four standard errors of what p_z says."""
    prefixes = prefixes_of(60, PREFIX, seed=3)
    drawn = target().draw(prefixes, np.random.default_rng(8).random((60, 1, SUFFIX)), REQUEST.scheme)
    some = [
        Pair(place, tuple(prefix), tuple(each.tokens[0].tolist()))
        for place, (prefix, each) in enumerate(zip(prefixes, drawn, strict=True))
    ]
    findings = attack_pairs(target(), some, replace(REQUEST, samples=25, seed=77))
    chances = [1 - (1 - 2.0 ** -each.views[HEADLINE].p_z_bits) ** 25 for each in findings]
    hits = sum(each.views[HEADLINE].choices["calibrated"].place is not None for each in findings)
    spread = math.sqrt(sum(chance * (1 - chance) for chance in chances))
    assert 5 < sum(chances) < 55
    assert abs(hits - sum(chances)) < 4 * spread


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_searches_give_the_same_findings(decoding):
    request = replace(REQUEST, scheme=DecodingConfig(decoding=decoding, beams=3), keep=1)
    for pair, finding in zip(pairs(), attack_pairs(target(), pairs(), request), strict=True):
        width = 3 if decoding == "beam" else 1
        theirs = target().sampler.target.model.generate(
            torch.tensor([pair.prefix]),
            num_beams=width,
            do_sample=False,
            max_new_tokens=SUFFIX,
            min_new_tokens=SUFFIX,
            pad_token_id=0,
            eos_token_id=None,
        )
        assert finding.guesses[0] == tuple(theirs[0, PREFIX:].tolist())
        assert (finding.samples, finding.views[HEADLINE].distinct) == (width, width)
        assert finding.views[HEADLINE].reachable in ((None,) if decoding == "beam" else (True, False))


def test_a_confidence_fitted_on_other_pairs_joins_the_rest():
    fitted = fit_confidence(target(), pairs(), REQUEST)
    request = replace(REQUEST, confidence="trained")
    found = attack_pairs(target(), pairs(), request, trained=fitted)
    assert all("trained" in each.views[HEADLINE].choices for each in found)
    assert all(0 <= each.views[HEADLINE].choices["trained"].confidence <= 1 for each in found)


def test_findings_survive_json_and_are_strict():
    for finding in attack_pairs(target(), pairs(), replace(REQUEST, keep=2, suffix_lengths=(3,))):
        text = finding.to_json()
        json.loads(text, parse_constant=pytest.fail)
        assert suffix_finding_from_json(text) == finding


def test_a_selection_keeps_what_it_reads():
    (finding,) = attack_pairs(target(), pairs()[:1], replace(REQUEST, suffix_lengths=(3,), keep=1))
    for selection in selections("calibrated", ["perplexity", "calibrated"], ["suffix_3"]):
        kept = suffix_finding_from_json(selection.of(finding).to_json())
        assert list(kept.views) == [selection.view]
        reading, whole = selection.select(kept), selection.select(finding)
        assert (reading.choice, reading.kind) == (whole.choice, whole.kind)
        assert bool(kept.guesses) == (selection.kind == "headline")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"suffix": (1, 400)}, TargetError, "pair 0 has token 400, but the model's tokens are 0 to 399"),
        ({"prefix": (1,) * 60}, TargetError, r"pair 0 has 60 \+ 7 tokens, but the model reads at most 64"),
    ],
)
def test_pairs_that_do_not_fit_the_model_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        attack_pairs(target(), [replace(pairs()[0], **change)], REQUEST)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suffix_lengths": (0, 3)}, "suffix_lengths has 0"),
        ({"sample_counts": (50,)}, "sample_counts has 50, but samples is 40"),
    ],
)
def test_an_order_that_cannot_be_is_refused(change, message):
    with pytest.raises(OptionError, match=message):
        replace(REQUEST, **change)


def test_sweeps_beyond_the_pairs_are_refused():
    with pytest.raises(OptionError, match="prefix_lengths has 9, but pair 0 has 6 such tokens"):
        attack_pairs(target(), pairs(), replace(REQUEST, prefix_lengths=(9,)))
    with pytest.raises(OptionError, match="comparing_lm needs a second model"):
        attack_pairs(target(), pairs(), replace(REQUEST, confidence="comparing_lm"))
