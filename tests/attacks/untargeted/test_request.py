"""The texts of a run."""

from __future__ import annotations

from collections import Counter

import pytest

from leakage_tasks.attacks.untargeted.request import TextId, UntargetedRequest
from leakage_tasks.attacks.untargeted.words import REPEATED
from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig


def test_the_published_numbers_of_repeated_words_are_125_times_30():
    texts = UntargetedRequest(kinds="divergence", texts=3750).text_ids({}, False)
    assert Counter(text.prompt for text in texts) == dict.fromkeys(range(125), 30)
    assert len(set(texts)) == 3750
    assert len(set(REPEATED)) == 125
    assert {each for each in REPEATED if len(each) == 1} == set(map(chr, range(33, 127)))


def test_every_kind_takes_its_turn_and_only_prefixes_have_controls():
    texts = UntargetedRequest(texts=3).text_ids({"ordinary": 2}, True)
    assert [text.kind for text in texts[:6]] == ["empty", "short", "divergence", "prefix", "prefix", "ordinary"]
    assert [(text.prompt, text.sample) for text in texts if text.kind == "empty"] == [(0, 0), (0, 1), (0, 2)]
    assert [(text.prompt, text.sample) for text in texts if text.kind == "ordinary"] == [(0, 0), (1, 0), (0, 1)]
    assert {text for text in texts if text.unseen} == {TextId("prefix", number, 0, True) for number in range(3)}
    assert not any(text.unseen for text in UntargetedRequest(texts=3).text_ids({}, False))
    assert len({text.key for text in texts}) == len(texts)


def test_greedy_decoding_writes_each_prompt_once():
    request = UntargetedRequest(DecodingConfig("greedy"), texts=4, repeated_words=2)
    counts = Counter(text.kind for text in request.text_ids({"ordinary": 3}, False))
    assert counts == {"empty": 1, "short": 4, "divergence": 2, "prefix": 4, "ordinary": 3}


@pytest.mark.parametrize("given", [{"kinds": ""}, {"kinds": "short:short"}, {"length": 5}, {"propensity_length": 300}])
def test_what_cannot_be_written_is_refused(given):
    with pytest.raises(OptionError):
        UntargetedRequest(**given)
