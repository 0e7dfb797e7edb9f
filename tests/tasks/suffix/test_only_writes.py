"""Pairs by draws on models that only write: hits, their exact intervals, and the rows that come of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from leakage_tasks.attacks.suffix.attack import attack_pairs
from leakage_tasks.attacks.suffix.confidences import FREQUENCY
from leakage_tasks.attacks.suffix.finding import HEADLINE, suffix_finding_from_json
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs import Pair
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.targets.harness.suffixes import HarnessSuffixes
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from tests.oracles import letters, tiny_gpt2
from tests.targets.text_models import OnlyWrites, hf, named
from tests.tasks.suffix.test_task import TASK, evaluate

PLAIN = DecodingConfig(temperature=1, top_p=1)


def ids(text: str) -> tuple[int, ...]:
    return tuple(letters()(text, add_special_tokens=False)["input_ids"])


def exact(model: Any, pair: Pair, temperature: float) -> float:
    """Probability of the suffix after the prefix, token by token, by one pass of `transformers`."""
    row = torch.tensor([[*pair.prefix, *pair.suffix]])
    with torch.no_grad():
        shares = (model(row).logits[0].double() / temperature).softmax(-1)
    places = range(len(pair.prefix), row.shape[1])
    return float(np.prod([float(shares[place - 1, row[0, place]]) for place in places]))


def likely_pairs(model: Any, number: int) -> list[Pair]:
    """Pairs whose suffixes are the likeliest characters of the model one after the other, for every third the next."""
    stream, found = np.random.default_rng(1), []
    letters_alone = [token for text in "abcdefghijklmnopqrstuvwxyz0123456789" for token in ids(text)]
    while len(found) < number:
        row = [*ids("pin "), *(int(token) for token in stream.choice(letters_alone, 3))]
        prefix = tuple(row)
        for place in range(2):
            with torch.no_grad():
                logits = model(torch.tensor([row])).logits[0, -1]
            row.append(sorted(letters_alone, key=lambda token: -logits[token])[(len(found) + place) % 3 == 0])
        found.append(Pair(len(found), prefix, tuple(row[-2:])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_intervals_of_hits_cover_the_model_s_own_probability(temperature: float) -> None:
    model, draws = tiny_gpt2(letters(), sharpness=8.0), 60
    pairs = likely_pairs(model, 120)
    request = SuffixRequest(DecodingConfig(temperature=temperature, top_p=1), samples=draws, confidence=FREQUENCY)
    torch.manual_seed(0)
    found = attack_pairs(HarnessSuffixes(OnlyWrites(hf(letters(), model))), pairs, request)
    truth = [exact(model, pair, temperature) for pair in pairs]
    hits = [each.views[HEADLINE].hits for each in found]
    ends = [stats.binomtest(each, draws).proportion_ci(method="exact") for each in hits]
    missed = sum(not end.low <= own <= end.high for own, end in zip(truth, ends, strict=True))
    assert stats.binomtest(missed, len(pairs), 0.05, alternative="greater").pvalue > 1e-3
    # All hits together are a sum of binomial variables, of which mean and spread are known.
    spread = np.sqrt(sum(draws * own * (1 - own) for own in truth))
    assert abs(sum(hits) - draws * sum(truth)) < 4 * spread
    assert sum(hits) > 100
    assert sum(own > 0.05 for own in truth) > 20


def test_p_z_of_one_pair_lies_in_its_interval() -> None:
    model, draws = tiny_gpt2(letters(), sharpness=8.0), 2000
    (pair,) = likely_pairs(model, 1)
    torch.manual_seed(0)
    request = SuffixRequest(PLAIN, samples=draws, confidence=FREQUENCY)
    (found,) = attack_pairs(HarnessSuffixes(OnlyWrites(hf(letters(), model))), [pair], request)
    own = exact(model, pair, 1.0)
    low, high = clopper_pearson(found.views[HEADLINE].hits, draws)
    assert low <= own <= high
    assert high - low < 0.05


def seeded(context: str, settings: dict, place: int) -> str:
    """What a server writes that heeds its seed: the text and the seed alone decide."""
    stream = np.random.default_rng([settings["seed"], len(context), ord(context[-1])])
    return "".join(stream.choice(list("ab"), 2))


def test_order_company_and_batch_change_nothing_where_a_model_takes_seeds() -> None:
    pairs = [Pair(number, ids(f"the pin {letter}"), ids("ab")) for number, letter in enumerate("abcdefg")]
    request = SuffixRequest(PLAIN, samples=30, confidence=FREQUENCY)

    def hits(some: list[Pair], seed: int = 0) -> dict[int, int | None]:
        lm = named("VLLM", OnlyWrites)(hf(letters()), seeded)
        found = attack_pairs(HarnessSuffixes(lm), some, SuffixRequest(**{**vars(request), "seed": seed}))
        return {each.pair: each.views[HEADLINE].hits for each in found}

    whole = hits(pairs)
    assert len(set(whole.values())) > 2
    assert hits(pairs[::-1]) == whole
    assert [hits([pair])[pair.id] for pair in pairs] == list(whole.values())
    assert hits(pairs, seed=1) != whole


@pytest.mark.parametrize(("together", "own"), [((1, 1), True), ((8, 1), False), ((1, 4), False)])
def test_a_server_gets_a_seed_a_draw_where_that_costs_no_company(together: tuple[int, int], own: bool) -> None:
    lm = named("LocalCompletionsAPI", OnlyWrites)(hf(letters()), lambda context, settings, place: "ab")
    lm._concurrent, lm._batch_size = together
    request = SuffixRequest(PLAIN, samples=5, confidence=FREQUENCY)
    attack_pairs(HarnessSuffixes(lm), [Pair(0, ids("the pin"), ids("ab"))], request)
    seeds = {settings["seed"] for _, settings in lm.asked["generate_until"]}
    assert (len(seeds) == 5 and None not in seeds) if own else seeds == {None}


@pytest.fixture
def data(tmp_path: Any) -> Any:
    rows = ["the pin is 12", "the pin at 34", "the tin in 56", "T he tin in 7"]
    for name, part in (("prefix", slice(0, 11)), ("suffix", slice(11, 13))):
        np.save(tmp_path / f"train_{name}.npy", np.array([ids(row)[part] for row in rows], dtype=np.uint16))
    return tmp_path


def writing(*answers: str) -> OnlyWrites:
    """Writes these texts in turn after each prefix."""
    return OnlyWrites(hf(letters()), lambda context, settings, place: answers[place % len(answers)])


@pytest.mark.parametrize("known", [0, 1])
def test_the_table_states_why_no_pair_was_tested(data: Any, known: int) -> None:
    unknown = np.full((4, 11), letters().unk_token_id, dtype=np.uint16)
    unknown[:known] = np.load(data / "train_prefix.npy", allow_pickle=False)[:known]
    np.save(data / "train_prefix.npy", unknown)
    results = evaluate(writing("12"), data, samples=2, temperature=1, top_p=1, wrong=None)
    assert ("no pair tested: " in results["configs"][TASK].get("task_alias", "")) is (known == 0)


def test_rows_are_shares_of_draws_with_exact_intervals(data: Any) -> None:
    results = evaluate(writing("12", "12", "34", "12"), data, samples=12, temperature=1, top_p=1, wrong=None)
    row = results["results"][TASK]
    # Nine of twelve draws are the first suffix, three the second; the last pair's prefix has an unknown character.
    shares = [9 / 12, 3 / 12, 0.0]
    unfit = 4 - int(row["n,none"])
    shares += [0.0] * (1 - unfit)
    assert row["left_out,none"] == unfit
    assert row["p_z,none"] == pytest.approx(np.mean(shares))
    assert row["p_z_most,none"] == pytest.approx(stats.beta.ppf(0.975, 10, 3))
    assert row["recall,none"] == row["recall,frequency"] == pytest.approx(1 / len(shares))
    assert row["drawn,none"] == pytest.approx(2 / len(shares))
    ends = stats.binomtest(2, len(shares)).proportion_ci(method="exact")
    assert (row["drawn_ci_low,none"], row["drawn_ci_high,none"]) == pytest.approx((ends.low, ends.high))
    assert row["model_calls,none"] == 12


def test_discoverable_is_told_of_no_more_draws_than_there_were(data: Any) -> None:
    row = evaluate(writing("12", "12", "34", "12"), data, samples=12)["results"][TASK]
    told = {name for name in row if name.startswith("discoverable") and "_stderr" not in name}
    assert {name.split(",")[0].split("_ci")[0] for name in told} == {"discoverable_1", "discoverable_10"}
    number = int(row["n,none"])
    # By its share the first suffix is (1, 0.5)-discoverable; by the ends of its interval it may not be.
    assert row["discoverable_1,none"] == pytest.approx(1 / number)
    low, high = (clopper_pearson(9, 12), clopper_pearson(3, 12))
    assert low[0] < 0.5 < low[1]
    assert high[1] > 0.5
    assert row["discoverable_1_ci_low,none"] == 0
    assert row["discoverable_1_ci_high,none"] == pytest.approx(clopper_pearson(2, number)[1])


def test_no_hit_at_all_is_no_proof_of_none(data: Any) -> None:
    row = evaluate(writing("no", "xx"), data, samples=10)["results"][TASK]
    draws = 10 * int(row["n,none"])
    assert (row["p_z,none"], row["p_z_ci_low,none"]) == (0, 0)
    assert row["p_z_ci_high,none"] == pytest.approx(1 - 0.025 ** (1 / draws))
    assert row["p_z_most,none"] == pytest.approx(1 - 0.025**0.1)


def test_what_takes_likelihoods_has_neither_rows_nor_columns(data: Any) -> None:
    results = evaluate(writing("12"), data, samples=10)
    names = {name for name in results["results"][TASK] if "," in name}
    assert {name.split(",")[1] for name in names} == {"none", "frequency"}
    assert not [name for name in names if "inextractability" in name or "expected" in name or "drawn_range" in name]
    declared = results["configs"][TASK]["leakage"]
    assert declared["attacks"][0]["access"] == "black box: text the model writes"
    json.dumps(results["results"], allow_nan=False)


def test_beginnings_of_suffixes_and_fewer_draws_are_read_off_the_same_draws(data: Any) -> None:
    lm = writing("12", "13", "34", "12")
    results = evaluate(lm, data, samples=8, suffix_lengths="1", sample_counts="2", split="all")
    first = suffix_finding_from_json(results["samples"][TASK][0]["resps"][0][0])
    assert {name: view.hits for name, view in first.views.items()} == {"none": 4, "suffix_1": 6, "samples_2": 1}


def test_greedy_writing_has_no_probability(data: Any) -> None:
    given = {"samples": None, "temperature": None, "top_p": None, "decoding": "greedy"}
    row = evaluate(writing("12"), data, **given)["results"][TASK]
    assert not [name for name in row if name.startswith(("p_z", "discoverable"))]
    assert row["recall,none"] == pytest.approx(1 / row["n,none"])


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"confidence": "zlib"}, "confidence='zlib' .*: use frequency"),
        ({"confidence": "calibrated"}, "confidence='calibrated' needs log-likelihoods, which .*: use frequency"),
        (
            {"validation": 1, "split": "test"},
            "validation needs log-likelihoods, and this OnlyWrites only generates text",
        ),
        ({"comparing_lm": "x"}, "comparing_lm needs log-likelihoods, and .* only generates text: leave it out"),
    ],
)
def test_what_takes_likelihoods_is_one_line(data: Any, metadata: dict, message: str) -> None:
    if "validation" in metadata:
        for name in ("prefix", "suffix"):
            rows = np.load(data / f"train_{name}.npy", allow_pickle=False)
            np.save(data / f"train_{name}.npy", np.tile(rows, (8, 1)))
    with pytest.raises(OptionError, match=message):
        evaluate(writing("12"), data, **{"samples": 4, **metadata})
