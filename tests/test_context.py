"""``context=``: one model asked about canaries after this and after that."""

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError, TargetError
from tests.oracles import brute_rank, letters, tiny_gpt2
from tests.targets.causal.test_in_context import expected
from tests.tasks.test_canary_tasks import BOTH, evaluate, findings_of

CANARIES = make_canaries("pin {unique} is {digits:2}", 2, controls=2)


@pytest.fixture
def manifest(tmp_path):
    write_manifest(CANARIES, tmp_path / "c.jsonl")
    return str(tmp_path / "c.jsonl")


def logged(manifest, names=tuple(BOTH), **options):
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=16)
    results = evaluate(lm, list(names), {"canaries": manifest, **options})
    return findings_of(results), {name: results["configs"][name]["leakage"]["protocol"] for name in names}


def test_it_stands_around_planted_canaries_and_controls_in_both_tasks(manifest):
    found, protocols = logged(manifest, context="so\\n")
    for canary in CANARIES:
        rank, own, costs = expected(letters(), canary, Context(before="so\n"))
        exposed = found["canary_exposure"][canary.id]
        assert (exposed.rank, exposed.log_perplexity) == (rank, pytest.approx(own, abs=1e-3))
        best = found["canary_extraction"][canary.id].guesses[0]
        assert best.score == pytest.approx(min(costs), abs=1e-3)
        assert best.text == canary.space.fill(best.filling)
    assert [protocol["context"] for protocol in protocols.values()] == ["so\\n", "so\\n"]


def test_auto_is_what_was_before_there_was_a_choice(manifest):
    found, protocols = logged(manifest, BOTH[:1], context="auto")
    usual, before = logged(manifest, BOTH[:1])
    assert protocols == before
    assert "context" not in protocols["canary_exposure"]
    for canary in CANARIES:
        own, other = (each["canary_exposure"][canary.id] for each in (found, usual))
        assert own.rank == brute_rank(tiny_gpt2(letters()), letters(), canary)[0]
        assert (own.rank, own.log_perplexity, own.settings_hash) == (
            other.rank,
            other.log_perplexity,
            other.settings_hash,
        )


def test_another_context_is_another_setting_of_the_same_manifest(manifest):
    found, _ = logged(manifest, BOTH[:1], context="none")
    usual, _ = logged(manifest, BOTH[:1])
    own, other = (each["canary_exposure"][CANARIES[0].id] for each in (found, usual))
    assert own.settings_hash != other.settings_hash
    assert own.manifest == other.manifest


@pytest.mark.parametrize(
    ("context", "error", "message"),
    [
        ("x {digits:2}", OptionError, "has a slot, {digits}"),
        ("a" * 60, TargetError, "tokens long with its context, but the model reads at most 64"),
    ],
)
def test_a_context_that_cannot_be_is_one_line(manifest, context, error, message):
    with pytest.raises(error, match=message):
        logged(manifest, context=context)
