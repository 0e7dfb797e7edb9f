"""What each kind of harness model is told so that it draws by the scheme and nothing else."""

import types

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM
from lm_eval.models.openai_completions import LocalCompletionsAPI, OpenAICompletionsAPI
from lm_eval.models.utils import Collator, normalize_gen_kwargs

from leakage_tasks.targets.harness.texts import EXTRAS, generation_settings
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

SCHEME = DecodingConfig(temperature=0.8, top_p=0.7)


def kind(name, *bases):
    return type(name, bases, {})()


def payload(model, scheme):
    """What the harness would send to a server."""
    shell = types.SimpleNamespace(model="m", _max_gen_toks=256)
    settings = generation_settings(object.__new__(model), scheme, 50, 0.25)
    return model._create_payload(shell, [[1]], generate=True, gen_kwargs=settings, seed=1234)


@pytest.mark.parametrize("scheme", [SCHEME, DecodingConfig("greedy")], ids=str)
def test_an_api_gets_no_seed_of_the_harness(scheme):
    sent = payload(LocalCompletionsAPI, scheme)
    assert sent["seed"] is None
    assert sent["max_tokens"] == 50
    assert sent["stop"] == []
    assert sent["temperature"] == (0.8 if scheme is SCHEME else 0)


def test_a_server_is_told_to_keep_all_tokens_and_openai_which_knows_no_top_k_is_not():
    assert payload(LocalCompletionsAPI, SCHEME)["top_k"] == -1
    assert payload(LocalCompletionsAPI, DecodingConfig(top_k=40))["top_k"] == 40
    assert "top_k" not in payload(OpenAICompletionsAPI, SCHEME)


def test_all_draws_of_an_api_are_of_one_batch():
    settings = [generation_settings(kind("TemplateAPI"), SCHEME, 5, uniform) for uniform in (0.1, 0.2, 0.3)]
    requests = [("a", each) for each in settings]
    batches = list(Collator(requests, lambda each: -len(each[0]), group_by="gen_kwargs").get_batched(n=0))
    assert [len(batch) for batch in batches] == [3]


def test_vllm_gets_a_seed_for_each_draw():
    model = kind("VLLM")
    uniforms = np.random.default_rng(0).random(100)
    seeds = [generation_settings(model, SCHEME, 5, uniform)["seed"] for uniform in uniforms]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert seeds == [generation_settings(model, SCHEME, 5, uniform)["seed"] for uniform in uniforms]


def test_what_the_harness_makes_of_the_settings_is_the_scheme():
    made = normalize_gen_kwargs(generation_settings(kind("VLLM"), SCHEME, 5, 0.5))
    assert (made["do_sample"], made["temperature"], made["top_p"], made["top_k"]) == (True, 0.8, 0.7, -1)
    assert (made["max_gen_toks"], made["until"]) == (5, [])


def test_a_kind_of_model_is_known_by_its_nearest_class():
    assert generation_settings(kind("Mine", HFLM_LIKE), SCHEME, 5, 0.5)["top_k"] == 0
    assert "top_k" not in generation_settings(kind("Other"), SCHEME, 5, 0.5)


HFLM_LIKE = type("HFLM", (), {})


def test_the_names_are_those_of_the_harness():
    for model in (HFLM, LocalCompletionsAPI, OpenAICompletionsAPI, *LocalCompletionsAPI.__bases__):
        assert model.__name__ in EXTRAS
