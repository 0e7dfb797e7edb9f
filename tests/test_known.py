"""``known=``: one model before attackers who know more or less of the template."""

import statistics
from functools import cache

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from tests.oracles import brute_rank, direct_costs, letters, tiny_gpt2
from tests.tasks.test_canary_tasks import BOTH, evaluate, findings_of

TEXTS = {"all": "the {digits:2} ab.", "before": "the {digits:2}", "after": "{digits:2} ab.", "none": "{digits:2}"}
CANARIES = [
    Canary("planted", TEXTS["all"], tuple("42"), known="the {digits:2}"),
    Canary("control", TEXTS["all"], tuple("17"), planted=False, repetitions=0),
    Canary("natural", TEXTS["all"], tuple("90"), kind="natural"),
]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    path = tmp_path_factory.mktemp("known") / "c.jsonl"
    write_manifest(CANARIES, path)
    return str(path)


@cache
def logged(manifest, **known):
    """Findings by task and canary, and the results."""
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)
    results = evaluate(lm, BOTH, {"canaries": manifest, **known})
    return findings_of(results), results


@pytest.mark.parametrize("known", TEXTS)
def test_every_canary_is_attacked_with_as_much_as_the_option_says(manifest, known):
    found, _ = logged(manifest, known=known)
    for canary in CANARIES:
        seen = Canary(canary.id, TEXTS[known], canary.secret)
        rank, costs = brute_rank(tiny_gpt2(letters()), letters(), seen)
        exposed, extracted = found["canary_exposure"][canary.id], found["canary_extraction"][canary.id]
        if canary.kind == "natural":
            band = range(1, 11) if rank <= 10 else range(11, 101)
            assert exposed.rank == pytest.approx(statistics.geometric_mean(band))
            assert not extracted.guesses
        else:
            assert exposed.rank == rank
            assert extracted.guesses[0].score == pytest.approx(min(costs), abs=1e-3)


def test_a_text_that_starts_with_the_slot_is_scored_after_the_prefix_token_alone(manifest):
    found, _ = logged(manifest, known="none")
    cost = direct_costs(tiny_gpt2(letters()), letters(), ["42"])[0]
    assert found["canary_exposure"]["planted"].log_perplexity == pytest.approx(cost, abs=1e-3)


def test_the_secret_stays_that_of_the_manifest_and_so_does_its_hash(manifest):
    found, results = logged(manifest, known="none")
    usual, as_usual = logged(manifest)
    assert {each.manifest for each in found["canary_exposure"].values()} == {
        each.manifest for each in usual["canary_exposure"].values()
    }
    assert found["canary_exposure"]["control"].settings_hash != usual["canary_exposure"]["control"].settings_hash
    asked, before = (each["configs"]["canary_exposure"]["leakage"]["protocol"] for each in (results, as_usual))
    assert asked == {**before, "known": "none"}


def test_the_template_asked_is_the_one_logged(manifest):
    _, results = logged(manifest, known="after")
    asked = {sample["doc"]["id"]: sample["arguments"][0][0] for sample in results["samples"]["canary_exposure"]}
    assert asked == {"planted": TEXTS["after"], "control": TEXTS["after"], "natural": "•"}


def test_what_changes_nothing_is_no_other_protocol(tmp_path):
    write_manifest(CANARIES[1:2], tmp_path / "c.jsonl")
    task = CanaryExposure(
        {"task": "canary_exposure", "metadata": {"canaries": str(tmp_path / "c.jsonl"), "known": "all"}}
    )
    assert "known" not in task.protocol()


def test_a_part_that_is_none_is_refused(manifest):
    with pytest.raises(OptionError, match="known='some' is unknown: use all, before, after, none"):
        CanaryExposure({"task": "canary_exposure", "metadata": {"canaries": manifest, "known": "some"}})
