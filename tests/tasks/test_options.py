"""Reading ``--metadata``."""

import logging

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import warn_once
from leakage_tasks.tasks.options import Options, read_options, typed_options, warn_of_unused
from leakage_tasks.tasks.suffix.options import SUFFIX_OPTIONS


def test_a_name_with_a_word_more_is_another_name():
    arguments = ("tokenizer_mode", "tokenizer_revision", "tokenizer_backend", "prefix_token_id", "tokenized_requests")
    assert typed_options(dict.fromkeys(arguments, "x"), "t", SUFFIX_OPTIONS) == ({}, {})
    for name in ("tokenizers", "text_columns", "prefix_lengh"):
        with pytest.raises(OptionError, match="did you mean"):
            typed_options({name: "x"}, "t", SUFFIX_OPTIONS)


def test_what_is_not_ours_is_left_alone():
    metadata = {"pretrained": "gpt2", "dtype": "auto", "version": 1.0, "config_source": "x", "trust_remote_code": False}
    assert read_options(metadata, "canary_exposure") == Options()


def test_an_option_of_tasks_that_do_not_run_is_one_warning(caplog):
    warn_once.cache_clear()
    metadata = {"form": "sharded", "data": "x", "beam": 3, "pretrained": "gpt2", "members": "x"}
    with caplog.at_level(logging.WARNING, "lm_eval.leakage"):
        warn_of_unused(metadata, ["memorization"])
        warn_of_unused(metadata, ["memorization", "canary_exposure", "contamination_test", "membership"])
        warn_of_unused(metadata, ["a task of another package"])
    form, members = [record.getMessage() for record in caplog.records]
    assert form == "--metadata form=… has no effect here: only contamination_test can take it, so leave it out"
    assert "members=… has no effect here: only membership" in members


def test_a_tasks_own_options_come_first():
    metadata = {"canaries": "a.jsonl", "seed": 1, "canary_exposure": {"attack": "rank-sample", "seed": 2}}
    assert read_options(metadata, "canary_exposure") == Options("a.jsonl", "rank-sample", None, 2)
    assert read_options(metadata, "canary_extraction") == Options("a.jsonl", "auto", None, 1)


def test_numbers_the_command_line_made_floats_are_whole_again():
    assert read_options({"budget": 1e5}, "t").budget == 100_000
    assert read_options({"canaries": 7}, "t").canaries == "7"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"budgt": 10}, "did you mean 'budget'"),
        ({"canary": "a"}, "did you mean 'canaries'"),
        ({"t": {"breadth": 3}}, "t has no option 'breadth'"),
        ({"t": 3}, "expected options by name"),
        ({"budget": "many"}, "budget='many': expected int"),
        ({"budget": 1.5}, "budget=1.5: expected int"),
        ({"seed": True}, "seed=True: expected int"),
        ({"lambda": 10**400}, "lambda: too large a number: expected one below 1e308"),
        ({"reveal": "yes"}, "reveal='yes': expected bool"),
        ({"canaries": True}, "canaries=True: expected text"),
        ({"canaries": ["a"]}, "canaries=.'a'.: expected text"),
    ],
)
def test_what_cannot_be_meant_is_refused(metadata, message):
    with pytest.raises(OptionError, match=message):
        read_options(metadata, "t")


def test_null_for_the_attack_of_one_task_is_the_usual_one():
    assert read_options({"canary_exposure": {"attack": None}, "draws": 7}, "canary_exposure") == read_options(
        {"draws": 7}, "canary_exposure"
    )


def test_options_of_attacks_are_kept_by_name():
    metadata = {"attack": "label-search", "beam": 50.0, "lambda": 1, "t": {"beam": 7, "audit": True}}
    assert read_options(metadata, "u").values == {"beam": 50, "lambda": 1.0}
    assert read_options(metadata, "t").values == {"beam": 7, "lambda": 1.0, "audit": True}


def test_the_arguments_of_our_models_are_taken_for_no_misspelt_option():
    arguments = ("pretrained", "tokenizer", "labels", "truncate", "reference", "head", "generator", "base", "save")
    others = ("head_epochs", "text", "data", "label_column", "batch_size", "device", "max_length", "loglikelihood")
    assert read_options(dict.fromkeys((*arguments, *others), "x"), "t") == Options()
