"""Near-verbatim extraction as rows of the task ``suffix_extraction``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nltk.metrics.distance import edit_distance

from leakage_tasks.attacks.suffix.attack import uniforms
from leakage_tasks.attacks.suffix.finding import suffix_finding_from_json
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.scoring import Answered, score
from leakage_tasks.metrics.suffix_scoring import SUFFIX_EXTRACTION
from leakage_tasks.metrics.suffixes import DRAWS
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.near import near_bounds
from leakage_tasks.tasks.suffix.options import read_suffix_options
from leakage_tasks.tasks.suffix.suffix_handler import settings_hash
from tests.oracles import merging
from tests.targets.suffix_oracle import sampler_of
from tests.targets.text_models import TextOnly, hf
from tests.tasks.suffix.test_task import PAIRS, TASK, arrays, data, evaluate, lm, read  # noqa: F401


@pytest.mark.slow
def test_rows_are_those_of_the_bounds(lm: Any, data: Any, tmp_path: Any) -> None:  # noqa: F811
    """With controls, a shorter prefix and the samples' own figures."""
    prefixes, suffixes = arrays()
    unseen = tmp_path / "unseen"
    unseen.mkdir()
    for name, rows in (("prefix", prefixes[::-1][:20]), ("suffix", suffixes[:20])):
        np.save(unseen / f"train_{name}.npy", rows)
    results = evaluate(lm, data, near=0.34, near_beam=4, prefix_lengths="3", controls=str(unseen))
    row = results["results"][TASK]
    scheme = read("", seed=0).request.scheme
    expected = {
        length: near_bounds(sampler_of(), prefixes[:, -length:].tolist(), suffixes.tolist(), scheme, 2, 4)
        for length in (8, 3)
    }
    for column, length in (("none", 8), ("prefix_3", 3)):
        low, high = (
            np.mean(np.exp2([-getattr(one, end) for one in expected[length]])) for end in ("bits", "high_bits")
        )
        assert row[f"p_near,{column}"] == pytest.approx(low, abs=1e-5)
        assert row[f"p_near_high,{column}"] == pytest.approx(high, abs=1e-5)
    numbers = [uniforms(0, Pair(place, tuple(prefixes[place]), tuple(suffixes[place])), 20) for place in range(PAIRS)]
    drawn = draw_suffixes(sampler_of(), prefixes.tolist(), np.stack(numbers), scheme)
    some = [
        any(edit_distance(one, suffix) <= 2 for one in draws.tokens.tolist())
        for draws, suffix in zip(drawn, suffixes.tolist(), strict=True)
    ]
    assert row["drawn_near,none"] == np.mean(some)
    assert row["p_z,none"] < row["p_near,none"]
    assert row["control_p_near,none"] < row["p_near_ci_low,none"]
    assert row["discoverable_near_100,none"] >= row["discoverable_100,none"]
    assert results["configs"][TASK]["leakage"]["rows"]["p_near"]["control"] == "control_p_near"
    samples = [each for each in results["samples"][TASK] if each["filter"] == "none"]
    settings = {"near": 0.34, "controls": str(unseen), "wrong": 5, "temperature": 0.3, "top_p": 0.95}
    again = score(SUFFIX_EXTRACTION, [Answered(each["resps"][0][0], "none", settings) for each in samples])["none"]
    near = {name: value for name, value in again.items() if "near" in name}
    assert len(near) == 3 + 1 + 3 + 3 * len(DRAWS) + 1
    assert near == pytest.approx({name: row[f"{name},none"] for name in near})


@pytest.mark.slow
def test_without_the_option_there_are_no_such_rows(lm: Any, data: Any) -> None:  # noqa: F811
    results = evaluate(lm, data)
    assert not [name for name in results["results"][TASK] if "near" in name]
    (view, *_) = suffix_finding_from_json(results["samples"][TASK][0]["resps"][0][0]).views.values()
    assert (view.near_edits, view.near_bits, view.near_high_bits) == (None, None, None)


def test_the_option_changes_the_hash_of_settings(data: Any) -> None:  # noqa: F811
    hashes = [
        settings_hash(read_suffix_options({"data": str(data), **given}))
        for given in ({}, {"near": 0.1}, {"near": 2}, {"near": 2, "near_beam": 3})
    ]
    assert len(set(hashes)) == 4
    assert settings_hash(read_suffix_options({"data": str(data), "near": 0})) == hashes[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"near": 6}, "near is 6, but pair 0 has 6 suffix tokens, so every draw would be near: use less than 6"),
        ({"near": 1.5}, "near is 1.5: give a number of tokens, a share of the suffix below 1, or 0"),
        ({"near": -1}, "near is -1: give a number of tokens"),
        ({"near": "few"}, "near='few': expected float"),
        ({"near": 1, "near_beam": 0}, "near_beam is 0: give 1 or more"),
        ({"near_beam": 9}, "near_beam means nothing without near: pass near=0.1, or leave it out"),
    ],
)
def test_bad_values_are_named(lm: Any, data: Any, given: dict[str, Any], message: str) -> None:  # noqa: F811
    with pytest.raises(OptionError, match=message):
        evaluate(lm, data, **given)


def test_a_beam_search_is_no_distribution(lm: Any, data: Any) -> None:  # noqa: F811
    given = {"decoding": "beam", "near": 1, "samples": None, "temperature": None, "top_p": None}
    with pytest.raises(OptionError, match="near means nothing to decoding=beam: .* decoding=sample or decoding=greedy"):
        evaluate(lm, data, **given)


def test_a_model_that_takes_text_alone_declines(data: Any) -> None:  # noqa: F811
    with pytest.raises(OptionError, match="near needs the probabilities of next tokens, .*: leave it out, or use"):
        evaluate(TextOnly(hf(merging())), data, near=1)
