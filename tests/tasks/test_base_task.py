"""Options of the harness that change nothing for our tasks: one warning each, an error where no other task is there."""

import json
import logging
from pathlib import Path

import pytest
from lm_eval.api.model import CachingLM
from lm_eval.models.huggingface import HFLM
from sqlitedict import SqliteDict

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness import plugin
from leakage_tasks.harness.generation import request
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.harness.table_number import TableNumber
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from leakage_tasks.tasks.label_accuracy import LabelAccuracy
from tests.oracles import letters, tiny_gpt2

OURS = ["canary_exposure", "canary_extraction"]
OTHER = "heldout_bits_per_byte"
GIVEN = {
    "--num_fewshot 3": {"num_fewshot": 3},
    "--gen_kwargs": {"gen_kwargs": "temperature=0.3"},
    "--system_instruction": {"system_instruction": "be kind"},
}


MARK = "changes nothing for leakage tasks"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "held.txt").write_text("the pin of x is 12.\n")
    write_manifest(make_canaries("pin {unique} is {digits}", 2, controls=1), folder / "c.jsonl")
    return {"canaries": str(folder / "c.jsonl"), "text": str(folder / "held.txt")}


def run(caplog, names, metadata, **settings):
    """What a run warns of that concerns our tasks, and its results."""
    plugin.install()
    notices.warn_once.cache_clear()
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)
    with caplog.at_level(logging.WARNING, "lm_eval.leakage"):
        results = evaluate_tasks(lm, names, metadata, **settings)
    said = [record.getMessage() for record in caplog.records if record.name == "lm_eval.leakage"]
    return [each for each in said if MARK in each], results


def test_beside_another_task_each_option_is_one_warning_and_no_change(caplog, metadata, tmp_path, monkeypatch):
    # Plain scoring, which puts what it is asked into the harness' cache.
    monkeypatch.setattr("leakage_tasks.tasks.attack_handler.as_target", lambda lm, *check: HarnessTarget(lm))
    # The harness' command line gives an empty mapping where its user gives none.
    said, usual = run(caplog, [*OURS, OTHER], metadata, num_fewshot=0, gen_kwargs={})
    assert said == []
    place = tmp_path / "cache"
    given = {name: value for options in GIVEN.values() for name, value in options.items()}
    said, results = run(caplog, [*OURS, OTHER], metadata, use_cache=str(place), **given)
    assert sorted(each.partition(f" {MARK}: they ")[0] for each in said) == sorted([*GIVEN, "--use_cache"])
    assert [results["results"][name] for name in OURS] == [usual["results"][name] for name in OURS]
    assert {results["n-shot"][name] for name in OURS} == {0}
    assert {results["configs"][name]["output_type"] for name in OURS} == {"attack"}
    with SqliteDict(f"{place}_rank0.db", flag="r") as kept:
        assert len(kept) == 1  # the held-out text's own answer


@pytest.mark.parametrize("option", GIVEN)
def test_alone_an_option_is_an_error(caplog, metadata, option):
    with pytest.raises(OptionError, match=f"^{option} {MARK}: .*no other task is in this run, so leave it out$"):
        run(caplog, OURS, metadata, **GIVEN[option])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"samples": {"canary_exposure": [0, 3]}}, "--samples: canary_exposure has 3 canaries, so no index 3: use"),
        ({"samples": {"canary_exposure": [-1]}}, "--samples: canary_exposure has 3 canaries, so no index -1: use"),
        ({"samples": {"canary_exposure": ["1"]}}, "--samples: canary_exposure has 3 canaries, so no index '1': use"),
        ({"limit": 0}, "--limit: leaves no canaries for canary_exposure: use 1 or more"),
    ],
)
def test_a_selection_without_documents_is_one_line(caplog, metadata, given, error):
    with pytest.raises(OptionError, match=f"^{error}"):
        run(caplog, OURS[:1], metadata, **given)


def test_a_selection_is_the_same_documents_in_any_order(metadata):
    task = CanaryExposure({"task": "canary_exposure", "metadata": metadata})
    parts = []
    for chosen in ([0, 2], [2, 0, 2]):
        task.build_all_requests(samples=chosen)
        parts.append(task.dump_config()["leakage"]["protocol"]["part"])
    assert parts[0] == parts[1]


@pytest.mark.parametrize(("multiturn", "warned"), [(False, [True]), (True, [])])
def test_turns_that_are_declined_are_one_warning(caplog, metadata, multiturn, warned):
    notices.warn_once.cache_clear()
    task = CanaryExposure({"task": "canary_exposure", "metadata": metadata})
    for doc in task.test_docs():
        task.fewshot_context(doc, apply_chat_template=True, fewshot_as_multiturn=multiturn)
    said = [record.getMessage() for record in caplog.records if MARK in record.getMessage()]
    assert [each.startswith("--fewshot_as_multiturn") for each in said] == warned


def test_labels_are_kept_out_of_the_cache_too(tmp_path):
    lm = CachingLM(HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters()), str(tmp_path / "cache.db"))
    LabelAccuracy.answers(lm.lm, [request("loglikelihood", {}, ("the pin", " is"), 0)])
    assert len(lm.dbdict) == 0
    assert lm.lm.cache_hook.dbdict is lm.dbdict


SUFFIXES = {"split": "all", "samples": 2, "suffix_lengths": "2", "temperature": 0.9}


@pytest.fixture(scope="module")
def with_pairs(metadata):
    folder = Path(metadata["canaries"]).parent
    ids = letters()("the pin of x is 12", add_special_tokens=False)["input_ids"]
    (folder / "pairs.jsonl").write_text(json.dumps({"prefix": ids[:8], "suffix": ids[8:12]}) + "\n")
    return {**metadata, "data": str(folder / "pairs.jsonl"), **SUFFIXES}


def test_an_option_that_another_task_takes_does_not_stop_a_canary_task(caplog, metadata, with_pairs):
    _, usual = run(caplog, OURS, metadata)
    _, results = run(caplog, [*OURS, "suffix_extraction"], with_pairs)
    assert [results["results"][name] for name in OURS] == [usual["results"][name] for name in OURS]
    protocols = [each["configs"][name]["leakage"]["protocol"] for each in (usual, results) for name in OURS]
    assert protocols[:2] == protocols[2:]
    assert results["configs"]["suffix_extraction"]["leakage"]["protocol"]["temperature"] == 0.9


def test_an_option_that_no_task_of_the_run_takes_is_an_error(caplog, metadata):
    with pytest.raises(
        OptionError, match=r"chose shortest-path, which has no option 'temperature': name attack=sample-text"
    ):
        run(caplog, [*OURS, OTHER], {**metadata, "temperature": 0.9})


def test_the_verdict_reads_the_main_column_and_a_small_value_is_not_printed_as_0(metadata):
    task = CanaryExposure({"metadata": metadata})
    aggregated = task.aggregation()["n_controls"]
    assert (aggregated([1.0, 1.0]), aggregated([1.0])) == (2, 1)
    assert task.found["n_controls"] == 2
    tiny = TableNumber(2e-5)
    assert (f"{tiny:.4f}", f"{TableNumber(0.0):.4f}", f"{TableNumber(-2e-5):.4f}") == ("<0.0001", "0.0000", "-0.0000")
    assert (f"{TableNumber(6e-5):.4f}", json.loads(json.dumps(tiny))) == ("0.0001", 2e-5)
