"""The task ``suffix_extraction`` inside the real harness."""

import json
import logging
import pickle
from functools import lru_cache

import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.utils import handle_non_serializable, make_table
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from leakage_tasks.attacks.suffix.finding import Answer, suffix_finding_from_json
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import LeakageError, MissingOption, OptionError, TargetError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.pairs.submission import SuffixGuess, read_submission
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.tasks.suffix.options import read_suffix_options
from leakage_tasks.tasks.suffix.suffix_handler import settings_hash
from leakage_tasks.tasks.suffix.task import SuffixExtraction
from tests.oracles import merging, tiny_gpt2
from tests.targets.suffix_oracle import prefixes_of, sampler_of
from tests.targets.text_models import TextOnly, hf

TASK = "suffix_extraction"
PAIRS, PREFIX, SUFFIX = 90, 8, 6


@lru_cache
def arrays():
    """Two of three pairs go on as the model would."""
    prefixes = prefixes_of(PAIRS, PREFIX)
    likely = draw_suffixes(
        sampler_of(), prefixes, np.random.default_rng(1).random((PAIRS, 1, SUFFIX)), read("seed").request.scheme
    )
    random = prefixes_of(PAIRS, SUFFIX, seed=4)
    suffixes = [random[n] if n % 3 == 0 else each.tokens[0].tolist() for n, each in enumerate(likely)]
    return np.array(prefixes, dtype=np.uint16), np.array(suffixes, dtype=np.uint16)


def read(_, **metadata):
    return read_suffix_options({"data": "x", "temperature": 0.3, "top_p": 0.95, **metadata})


@pytest.fixture
def data(tmp_path):
    prefixes, suffixes = arrays()
    np.save(tmp_path / "train_prefix.npy", prefixes)
    np.save(tmp_path / "train_suffix.npy", suffixes)
    return tmp_path


@pytest.fixture
def lm():
    return HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=4)


def evaluate(lm, folder, settings=None, **metadata):
    given = {
        "data": str(folder),
        "split": "all",
        "samples": 20,
        "wrong": 5,
        "temperature": 0.3,
        "top_p": 0.95,
        "rows": "all",
        **metadata,
    }
    return evaluate_tasks(lm, [TASK], given, **settings or {})


@pytest.mark.slow
def test_recall_is_what_plain_forward_passes_say(lm, data):
    """p_z and inextractability by `transformers` alone, recall within what they allow."""
    row = evaluate(lm, data)["results"][TASK]
    prefixes, suffixes = (each.astype(np.int64) for each in arrays())
    rows = torch.from_numpy(np.concatenate([prefixes, suffixes], axis=1))
    with torch.no_grad():
        logits = tiny_gpt2(merging())(rows).logits[:, PREFIX - 1 : -1].double() / 0.3
    ordered, ids = logits.softmax(-1).sort(descending=True)
    kept = (ordered.cumsum(-1) - ordered) < 0.95
    kept_mass = (ordered * kept).sum(-1)
    own = (ids == rows[:, PREFIX:, None]) & kept
    chances = ((ordered * own).sum(-1) / kept_mass).prod(-1).numpy()
    assert row["p_z,none"] == pytest.approx(chances.mean(), rel=1e-4)
    assert row["inextractability,none"] == pytest.approx(-np.log2(chances.max()), abs=1e-3)
    discoverable = [(1 - (1 - chances) ** n >= 0.5).mean() for n in (1, 10, 100, 1000, 10_000)]
    assert [row[f"discoverable_{n},none"] for n in (1, 10, 100, 1000, 10_000)] == pytest.approx(discoverable)
    assert row["expected_recall,none"] == pytest.approx((1 - (1 - chances) ** 20).mean(), rel=1e-4)
    assert row["drawn_range_low,none"] <= row["drawn,none"] <= row["drawn_range_high,none"]
    assert 0.2 < row["recall,none"] <= row["recall_at_3,none"] <= row["drawn,none"]
    assert "recall_at_100,none" not in row
    assert row["n,none"] == PAIRS


def test_every_confidence_has_its_column_from_one_run(lm, data):
    results = evaluate(lm, data, validation=8, split="test")
    row = results["results"][TASK]
    for name in ("perplexity", "zlib", "lowercase", "calibrated", "trained"):
        assert 0 <= row[f"recall_early_stop,{name}"] <= row[f"recall,{name}"] <= 1
        for value in ("recall", "recall_early_stop"):
            assert row[f"{value}_ci_low,{name}"] <= row[f"{value},{name}"] <= row[f"{value}_ci_high,{name}"]
        assert f"recall_early_stop_same_guesses,{name}" in row
    assert "recall,comparing_lm" not in row
    assert row["recall,calibrated"] == row["recall,none"]
    json.dumps(results["results"], allow_nan=False)
    assert "recall_early_stop" in make_table(results)


def test_a_confidence_that_cannot_be_fitted_leaves_its_column_empty(lm, data, caplog):
    """No suffix of the validation split can be drawn, those of the test split can."""
    suffixes = np.load(data / "train_suffix.npy", allow_pickle=False)
    suffixes[: PAIRS - PAIRS // 15] = np.arange(SUFFIX)
    np.save(data / "train_suffix.npy", suffixes)
    notices.warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        results = evaluate(lm, data, validation=8, split="test")
    assert "column 'trained' stays empty: confidence=trained cannot be fitted: 0 of" in caplog.text
    row = results["results"][TASK]
    own = {name: value for name, value in row.items() if name.endswith(",trained") and "_stderr" not in name}
    assert set(own.values()) == {None}
    assert {f"{name},trained" for name in ("recall", "recall_early_stop", "recall_early_stop_same_guesses")} <= set(own)
    assert row["recall,calibrated"] == row["recall,none"] > 0
    with pytest.raises(TargetError, match="confidence=trained cannot be fitted: 0 of .* use more validation pairs"):
        evaluate(lm, data, confidence="trained", split="test")


@pytest.mark.slow
def test_a_second_model_is_compared_with_by_name(lm, data, tmp_path):
    tiny_gpt2(merging(), seed=7).save_pretrained(tmp_path / "other")
    merging().save_pretrained(tmp_path / "other")
    row = evaluate(lm, data, comparing_lm=str(tmp_path / "other"), confidence="comparing_lm")["results"][TASK]
    assert row["recall,comparing_lm"] == row["recall,none"]


def test_a_second_model_of_another_tokenizer_is_refused(lm, data, tmp_path):
    """As many tokens, two of which have changed places."""
    state = json.loads(merging().backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    first, second = (merging().convert_ids_to_tokens(int(token)) for token in arrays()[0][0, :2])
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    other = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    tiny_gpt2(merging(), seed=7).save_pretrained(tmp_path / "other")
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(
        OptionError, match=r"comparing_lm=\S+ reads these token ids as other text: give one with the same"
    ):
        evaluate(lm, data, comparing_lm=str(tmp_path / "other"))


@pytest.mark.slow
def test_sweeps_come_from_the_same_run(lm, data):
    row = evaluate(lm, data, prefix_lengths="2:8", suffix_lengths=[1, 3, 6], sample_counts="1:20")["results"][TASK]
    assert row["recall,suffix_1"] >= row["recall,suffix_3"] >= row["recall,suffix_6"] == row["recall,none"]
    assert row["recall,prefix_2"] <= row["recall,prefix_8"] == row["recall,none"]
    assert row["recall,samples_1"] != row["recall,samples_20"] == row["recall,none"]
    assert row["p_z,suffix_1"] >= row["p_z,suffix_6"] == row["p_z,none"]
    assert row["recall_ci_low,prefix_2"] <= row["recall,prefix_2"] <= row["recall_ci_high,prefix_2"]
    assert not {"p_z,samples_1", "p_z_ci_low,suffix_1", "recall_at_100,suffix_1"} & set(row)


def test_nothing_shows_a_pair_unless_asked(lm, data):
    one = {"limit": 1}
    hidden = evaluate(lm, data, one)["samples"][TASK][0]
    assert set(hidden["doc"]) == {"pair", "place", "tokens"}
    assert json.loads(hidden["resps"][0][0])["guesses"] == []
    first = arrays()[1][hidden["doc"]["pair"]].tolist()
    assert str(first)[1:-1] not in json.dumps(hidden)
    shown = evaluate(lm, data, one, reveal=True)["samples"][TASK][0]
    assert shown["doc"]["suffix"] == first
    assert len(json.loads(shown["resps"][0][0])["guesses"]) > 0


def test_guesses_are_in_their_file_and_in_no_log(lm, data, tmp_path):
    results = evaluate(lm, data, guesses=str(tmp_path / "guesses.csv"), validation=8, split="test")
    logged = json.dumps(results["samples"], default=handle_non_serializable)
    written = [tokens for _, tokens in read_submission(tmp_path / "guesses.csv")]
    assert len(written) == results["results"][TASK]["guesses_written,none"] == 6
    for tokens in (*written, *map(tuple, arrays()[1].tolist())):
        assert json.dumps(tokens)[1:-1] not in logged
        assert " ".join(map(str, tokens)) not in logged
    assert "SuffixGuess(pair=0, confidence=" in logged


def test_a_guess_survives_the_way_between_processes():
    guess = SuffixGuess(3, (5, 6), 0.5)
    answer = Answer('{"pair": 3}', (5, 6))
    assert pickle.loads(pickle.dumps(guess)) == guess
    assert pickle.loads(pickle.dumps(answer)).guess == (5, 6)


def views(samples):
    """What was found out about each pair, by its id."""
    findings = (suffix_finding_from_json(each["resps"][0][0]) for each in samples if each["filter"] == "none")
    return {finding.pair: finding.views["none"] for finding in findings}


@pytest.mark.slow
def test_batch_size_order_and_company_change_nothing(lm, data):
    whole = views(evaluate(lm, data)["samples"][TASK])
    single = HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=1)
    others = (
        views(evaluate(single, data)["samples"][TASK]),
        views(evaluate(lm, data, {"limit": 7})["samples"][TASK]),
        views(evaluate(lm, data, {"samples": {TASK: [5, 80, 2]}})["samples"][TASK]),
    )
    assert [len(each) for each in others] == [PAIRS, 7, 3]
    for other in others:
        for pair, view in other.items():
            told = whole[pair]
            assert (view.distinct, view.reachable) == (told.distinct, told.reachable)
            assert view.own_bits == pytest.approx(told.own_bits, abs=1e-3)
            assert (view.p_z_bits or 0) == pytest.approx(told.p_z_bits or 0, abs=1e-3)
            for name, choice in view.choices.items():
                assert (choice.place, choice.wrong, choice.count) == (
                    told.choices[name].place,
                    told.choices[name].wrong,
                    told.choices[name].count,
                )
                assert choice.bits == pytest.approx(told.choices[name].bits, abs=1e-3)


def test_a_model_that_takes_text_alone_goes_through_text(data, tmp_path):
    results = evaluate(TextOnly(hf(merging())), data, samples=5)
    row = results["results"][TASK]
    assert row["left_out,none"] + row["n,none"] == PAIRS
    assert "p_z,none" not in row
    assert 0 <= row["recall,none"] <= 1


def test_advice_where_figures_say_less_than_they_seem_to(lm, data, caplog):
    notices.warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        evaluate(lm, data, split=None, wrong=50)
    assert "the test split holds 6 of 90 pairs: pass split=all" in caplog.text
    assert "allows 50 wrong guesses of 6 pairs" in caplog.text


def test_unless_told_the_proportion_of_wrong_guesses_is_the_benchmark_s(lm, data, caplog):
    few = {"samples": 5, "resume": str(data / "kept")}
    notices.warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        row = evaluate(lm, data, wrong=None, **few)["results"][TASK]
    assert "wrong guesses" not in caplog.text
    told = evaluate(lm, data, wrong=9, **few)["results"][TASK]
    assert row["recall_early_stop,none"] == told["recall_early_stop,none"]
    assert row["recall_early_stop,none"] < row["recall,none"]


def test_the_hash_of_settings_tells_runs_apart_that_differ(data):
    def hashed(**metadata):
        return settings_hash(read_suffix_options({"data": str(data), **metadata}))

    others = [{"samples": 20}, {"top_p": 0.5}, {"seed": 1}, {"comparing_lm": "x"}, {"validation": 3}, {"validation": 4}]
    others += [{"confidence": "zlib"}, {"decoding": "greedy"}, {"lowercase": False}, {"sample_counts": "5"}]
    assert len({hashed(), *(hashed(**each) for each in others)}) == 1 + len(others)
    same = ({"samples": 100, "top_p": 0.7}, {"reveal": True}, {"wrong": 3}, {"guesses": str(data / "g.csv")})
    assert {hashed(**each) for each in same} == {hashed()}
    before = hashed(validation=3)
    np.save(data / "train_prefix.npy", np.load(data / "train_prefix.npy", allow_pickle=False)[:, ::-1])
    assert hashed(validation=3) != before


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"data": None}, MissingOption, "needs pairs of prefix and suffix: pass --metadata data="),
        ({"samples": 0}, OptionError, "samples is 0: draw 1 or more"),
        ({"top_p": 3}, OptionError, "top_p is 3"),
        ({"confidence": "loss"}, OptionError, "confidence is 'loss'"),
        ({"prefix_length": 9}, OptionError, "its prefix has 8 tokens, prefix_length=9 needs more"),
        ({"prefix_lengths": "2,x"}, OptionError, "expected whole numbers, as in prefix_lengths=10:20:30"),
        ({"prefix_lengths": -2.0}, OptionError, "-2"),
        ({"split": "dev"}, OptionError, "^split='dev' is unknown: use train, validation, test or all$"),
        ({"confidence": "trained"}, OptionError, "split=all holds the pairs that the trained confidence is fitted on"),
        ({"sample": 3}, OptionError, "did you mean 'samples'"),
        ({"comparing_lm": "/nowhere"}, TargetError, "comparing_lm=/nowhere: cannot be loaded"),
        ({"wrong": 0}, OptionError, "^--metadata wrong=0: allow 1 wrong guess or more$"),
        ({"data": True}, OptionError, "data=True: expected text"),
        ({"validation": -1, "split": "test"}, OptionError, "validation is -1: give .* to fit .*, 0 or more"),
        ({"validation": 0, "confidence": "trained"}, OptionError, "validation is 0: give .* to fit .*, 1 or more"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(lm, data, metadata, error, message):
    with pytest.raises(error, match=message):
        evaluate(lm, data, **metadata)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"confidence": "comparing_lm"}, "confidence=comparing_lm needs .*: pass --metadata comparing_lm=MODEL"),
        ({"prefix_lengths": "2:9"}, "prefix_lengths has 9, the prefix of pair 0 8 tokens: ask for that or less"),
        ({"suffix_lengths": "7"}, "suffix_lengths has 7, the suffix of pair 0 6 tokens: ask for that or less"),
        ({"guesses": "FOLDER"}, "guesses=.*: is a folder: name a .csv file in it"),
        ({"guesses": "x" * 300}, "cannot be written .no such path can exist."),
        ({"guesses": "FOLDER/none/g.csv"}, "none/g.csv: cannot be written .no folder .*: make it first"),
        ({"decoding": "greedy", "samples": 3}, "samples means nothing to decoding=greedy: .* use decoding=sample$"),
        ({"decoding": "greedy", "beams": 3}, "beams means nothing to decoding=greedy: .* use decoding=beam$"),
        (
            {"decoding": "beam", "top_k": 3},
            "top_k means nothing to decoding=beam: leave it out, or use decoding=sample",
        ),
        (
            {"decoding": "sample", "beams": 3},
            "beams means nothing to decoding=sample: leave it out, or use decoding=beam",
        ),
    ],
)
def test_what_can_be_known_before_the_model_is_asked_is_said_then(data, metadata, message):
    given = {
        name: value.replace("FOLDER", str(data)) if isinstance(value, str) else value
        for name, value in metadata.items()
    }
    with pytest.raises(LeakageError, match=message):
        SuffixExtraction({"task": TASK, "metadata": {"data": str(data), "split": "all", **given}})


@pytest.mark.parametrize("asked", [{"confidence": "trained"}, {"validation": 5}])
def test_a_confidence_needs_a_split_to_be_fitted_on(tmp_path, asked):
    prefixes, suffixes = arrays()
    np.save(tmp_path / "test_prefix.npy", prefixes)
    np.save(tmp_path / "test_suffix.npy", suffixes)
    with pytest.raises(OptionError, match="no validation split to fit a confidence on .there are: test 90.: give one"):
        SuffixExtraction({"task": TASK, "metadata": {"data": str(tmp_path), **asked}})


def test_the_arguments_of_models_are_taken_for_no_misspelt_option():
    arguments = ("pretrained", "prompt", "peft", "labels", "truncate", "reference", "head", "base", "dtype", "device")
    others = (
        "max_length",
        "max_gen_toks",
        "label_column",
        "batch_size",
        "canaries",
        "attack",
        "budget",
        "beam",
        "text",
    )
    assert read("x", **dict.fromkeys((*arguments, *others), "x")).request == read("x").request


def test_text_takes_the_models_own_tokenizer_unless_told_otherwise():
    assert read("x", pretrained="gpt2").source.tokenizer == "gpt2"
    assert read("x", pretrained="gpt2", tokenizer="other").source.tokenizer == "other"
