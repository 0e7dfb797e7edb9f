"""The look at other contexts: it speaks where a model knows the planted canaries better there, and only then."""

import logging

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks.contexts import clearer_context
from leakage_tasks.canaries import make_canaries, plant, write_manifest
from leakage_tasks.canaries.context import Context
from leakage_tasks.core import log as notices
from leakage_tasks.targets import CausalTarget
from tests.oracles import letters, tiny_gpt2
from tests.tasks.test_canary_tasks import evaluate

CANARIES = make_canaries("pin of {unique} is {digits:4}.", 8, controls=8)


@pytest.fixture
def knows_after_nothing(monkeypatch):
    """A model that goes on with a planted text wherever one has begun, but only at the very start of what it reads."""
    model = tiny_gpt2(letters())
    known = [letters()(each.text)["input_ids"] for each in CANARIES if each.planted]
    forward = model.forward

    def remembering(input_ids, **kwargs):
        out = forward(input_ids=input_ids, **kwargs)
        for row, tokens in enumerate(input_ids.tolist()):
            for text in known:
                for place, (read, told) in enumerate(zip(tokens, text, strict=False)):
                    if read != told:
                        break
                    if place + 1 < len(text):
                        out.logits[row, place, text[place + 1]] += 30
        return out

    monkeypatch.setattr(model, "forward", remembering)
    return CausalTarget(model, letters(), cached=False)


def test_a_context_that_exposes_the_planted_alone_is_named_with_its_figures(knows_after_nothing):
    found = clearer_context(knows_after_nothing, CANARIES)
    assert found.context == Context("none")
    assert found.gain > 5
    assert found.p_value < 0.01 / 3
    assert found.auc[1] > 0.95 > found.auc[0]
    assert found.counts == (8, 8)
    assert "\n" not in str(found)
    assert "pass --metadata context=none" in str(found)


def test_few_canaries_are_not_looked_at(knows_after_nothing):
    few = [*[each for each in CANARIES if each.planted][:3], *[each for each in CANARIES if not each.planted][:3]]
    assert clearer_context(knows_after_nothing, few) is None
    assert clearer_context(knows_after_nothing, [each for each in CANARIES if each.planted]) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_model_that_knows_no_canary_is_passed_over(seed):
    canaries = make_canaries("pin of {unique} is {digits:4}.", 8, controls=8, seed=seed)
    assert clearer_context(CausalTarget(tiny_gpt2(letters(), seed), letters()), canaries) is None


def test_the_task_says_so_once_and_names_what_training_had(knows_after_nothing, tmp_path, caplog):
    notices.warn_once.cache_clear()
    manifest, source = tmp_path / "c.jsonl", tmp_path / "in.txt"
    write_manifest(CANARIES, manifest)
    source.write_text("one\n")
    plant(manifest, source, tmp_path / "planted.txt")
    lm = HFLM(pretrained=knows_after_nothing.model, tokenizer=letters(), batch_size=8)
    with caplog.at_level(logging.INFO):
        evaluate(lm, ["canary_exposure"], {"canaries": str(manifest), "attack": "rank-sample", "budget": 20})
    lines = [record.getMessage() for record in caplog.records if "context=" in record.getMessage()]
    recorded, warned = lines
    assert recorded == (
        "leakage: planted.txt.leakage.json: training reads each copy after a line break (context=\\n); "
        "here context=auto"
    )
    assert warned.startswith("leakage: context=none exposes the planted canaries more than context=auto")
