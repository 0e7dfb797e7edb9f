"""A saved run scored again equals itself, to the last bit; what does not is named."""

import json
import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.metrics.aggregates import early_stop
from leakage_tasks.metrics.audit import audit
from leakage_tasks.report.load.results_file import read_run
from leakage_tasks.report.load.samples import read_samples
from leakage_tasks.report.plots.findings import recall_of
from leakage_tasks.report.plots.recall import recall_curve
from leakage_tasks.report.score import score_file, score_text
from leakage_tasks.stats import power
from tests.oracles import letters, merging, tiny_gpt2
from tests.report.saved import (
    EXPOSURE,
    EXTRACTION,
    SUFFIXES,
    Writer,
    canary_run,
    pairs_file,
    save,
    suffix_model,
    suffix_run,
)
from tests.targets.text_models import TextOnly, hf
from tests.tasks.suffix.test_task import arrays


def samples_of(results, task):
    return results.with_name(results.name.replace("results_", f"samples_{task}_")).with_suffix(".jsonl")


def rows(results, task):
    """A run's rows as its results file has them, by the harness' names."""
    data = json.loads(results.read_text())
    more = data["configs"][task]["leakage"].get("hidden_metrics", {})
    values = {key: value for key, value in data["results"][task].items() if "," in key and "_stderr," not in key}
    values.pop("hidden_metrics,none", None)
    return values | {f"{name},none": value for name, value in more.items()}


def scored(results, task):
    """The same rows scored again, through JSON."""
    scores = json.loads(json.dumps(score_file(samples_of(results, task)).scores, allow_nan=False))
    return {f"{name},{column}": value for column, values in scores.items() for name, value in values.items()}


def equal(results, task, but=()):
    """Whether all rows of a run come out again, none more and none less; how many there are."""
    expected = {key: value for key, value in rows(results, task).items() if key not in but}
    assert scored(results, task) == expected
    return len(expected)


@pytest.fixture(scope="module")
def canaries(tmp_path_factory):
    return canary_run(tmp_path_factory.mktemp("canaries"))


def test_canary_tasks_come_out_again(canaries):
    assert equal(canaries, EXPOSURE) > 8
    assert equal(canaries, EXTRACTION) > 8


SUBCLASS = """from leakage_tasks.tasks.{module} import {base}


class Odd({base}):
    pass
"""


def odd_task(folder, module, base):
    """A folder with the task ``odd_task``, whose class adds nothing to one of ours."""
    folder.mkdir()
    (folder / "odd.py").write_text(SUBCLASS.format(module=module, base=base))
    (folder / "odd.yaml").write_text("task: odd_task\nclass: !function odd.Odd\nmetadata:\n  version: 1.0\n")
    return folder


@pytest.mark.parametrize(("base", "goal"), [("CanaryExposure", "exposure"), ("CanaryExtraction", "extraction")])
def test_a_subclass_of_a_canary_task_comes_out_again(tmp_path, base, goal):
    write_manifest(make_canaries("pin {unique} is {digits:2}", 3, controls=2), tmp_path / "c.jsonl")
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    folder = odd_task(tmp_path / "odd", "canary_tasks", base)
    results = save(lm, ["odd_task"], tmp_path, {"canaries": str(tmp_path / "c.jsonl")}, [folder])
    assert equal(results, "odd_task") > 8
    compared = score_file(samples_of(results, "odd_task")).compared
    assert compared.equal == len(rows(results, "odd_task"))
    assert read_run(results).tasks["odd_task"].scoring_name == f"canary_{goal}"


def test_a_subclass_of_the_task_of_suffixes_comes_out_again(tmp_path):
    folder = odd_task(tmp_path / "odd", "suffix.task", "SuffixExtraction")
    settings = {"data": str(pairs_file(tmp_path)), "split": "all", "samples": 8}
    results = save(suffix_model(), ["odd_task"], tmp_path, settings, [folder])
    assert equal(results, "odd_task", but={"guesses_written,none"}) > 8


def test_every_row_was_compared(canaries):
    compared = score_file(samples_of(canaries, EXPOSURE)).compared
    assert compared.file == canaries
    assert compared.equal == len(rows(canaries, EXPOSURE))
    assert compared.differences == compared.newer == ()


def test_rows_without_a_value_come_out_as_none(tmp_path):
    write_manifest(make_canaries("pin {unique} is {digits:2}", 0, controls=3), tmp_path / "c.jsonl")
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    results = save(lm, [EXPOSURE], tmp_path, {"canaries": str(tmp_path / "c.jsonl")})
    assert rows(results, EXPOSURE)["exposure,none"] is None
    assert equal(results, EXPOSURE) > 8
    assert score_file(samples_of(results, EXPOSURE)).audit == ()


def test_estimates_of_a_part_of_the_documents_come_out_again(tmp_path):
    write_manifest(make_canaries("pin {unique} is {digits:2}", 4, controls=4), tmp_path / "c.jsonl")
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    given = {"canaries": str(tmp_path / "c.jsonl"), "attack": "auto", "budget": 40}
    results = save(lm, [EXPOSURE], tmp_path, given, limit=3)
    assert equal(results, EXPOSURE) > 8
    assert score_file(samples_of(results, EXPOSURE)).samples.documents == 3


def test_natural_canaries_come_out_again(tmp_path):
    """Their documents hold no secret."""
    made = make_canaries("pin {unique} is {digits:2}", 2)
    write_manifest([replace(each, kind="natural") for each in made], tmp_path / "c.jsonl")
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    assert equal(save(lm, [EXTRACTION], tmp_path, {"canaries": str(tmp_path / "c.jsonl")}), EXTRACTION) > 7


def test_all_columns_of_suffix_extraction_come_out_again(tmp_path):
    sweeps = {"prefix_lengths": "2:6", "suffix_lengths": [1, 3], "sample_counts": "1:8", "rows": "all"}
    results = suffix_run(tmp_path, wrong=2, **sweeps)
    assert equal(results, SUFFIXES) > 60
    columns = {key.split(",")[1] for key in scored(results, SUFFIXES)}
    assert {"none", "calibrated", "zlib", "lowercase", "prefix_2", "suffix_1", "samples_1"} <= columns


@pytest.mark.parametrize(
    "metadata",
    [
        {"decoding": "greedy", "samples": None, "temperature": None},
        {"decoding": "beam", "beams": 3, "samples": None, "temperature": None},
        {"samples": 120, "temperature": 1.0, "top_p": 1.0, "lowercase": False, "confidence": "zlib", "wrong": 3},
    ],
)
def test_other_ways_of_drawing_come_out_again(tmp_path, metadata):
    results = suffix_run(tmp_path, **metadata)
    assert equal(results, SUFFIXES) > 20


def test_a_fitted_confidence_comes_out_again(tmp_path):
    """On pairs of which most go on as the model would; the plot of recall has the figures of the table."""
    for name, array in zip(("prefix", "suffix"), arrays(), strict=True):
        np.save(tmp_path / f"train_{name}.npy", array)
    options = {"data": str(tmp_path), "split": "test", "validation": 8, "samples": 20, "temperature": 0.3}
    results = save(suffix_model(), [SUFFIXES], tmp_path, {**options, "rows": "all"})
    table = rows(results, SUFFIXES)
    assert table["recall,trained"] > 0
    assert equal(results, SUFFIXES) > 20
    for line in recall_of([results]):
        column, curve = line.name.partition(" ")[0], recall_curve(line.guesses)
        assert early_stop(line.wrong)(line.guesses) == table[f"recall_early_stop,{column}"] < curve[-1]
        assert curve[-1] == table[f"recall,{column}"]


def test_pairs_left_out_are_counted_again(tmp_path):
    results = suffix_run(tmp_path, TextOnly(hf(merging())), samples=4)
    assert rows(results, SUFFIXES)["left_out,none"] > 0
    assert equal(results, SUFFIXES) > 8


def test_guesses_written_are_left_out_with_the_reason(tmp_path):
    results = suffix_run(tmp_path, guesses=str(tmp_path / "guesses.csv"))
    assert equal(results, SUFFIXES, but=["guesses_written,none"]) > 20
    again = score_file(samples_of(results, SUFFIXES))
    assert set(again.samples.unscored) == {"guesses_written"}
    assert again.compared.differences == ()


@pytest.mark.parametrize("metadata", [{}, {"data": "PAIRS", "split": "all"}])
def test_a_member_of_the_group_that_stayed_null_stays_so(tmp_path, metadata):
    write_manifest(make_canaries("pin {unique} is {digits:2}", 3, controls=2), tmp_path / "c.jsonl")
    given = {name: str(pairs_file(tmp_path)) if value == "PAIRS" else value for name, value in metadata.items()}
    options = {"canaries": str(tmp_path / "c.jsonl"), "canary_extraction": {"attack": "greedy"}, **given}
    results = save(Writer(), ["leakage"], tmp_path, options)
    for task in (EXPOSURE, SUFFIXES):
        assert set(rows(results, task).values()) == {None}
        again = score_file(samples_of(results, task))
        assert again.samples.unanswered
        assert again.compared.differences == ()
        equal(results, task)
    assert equal(results, EXTRACTION) > 8


def test_the_findings_of_a_run_are_audited(canaries):
    again = score_file(samples_of(canaries, EXPOSURE), delta=1e-5)
    findings = read_samples(samples_of(canaries, EXPOSURE)).findings()
    assert len(findings) == 11
    assert list(again.audit) == audit(findings, 1e-5)
    assert score_file(samples_of(canaries, EXTRACTION)).audit == ()


# -- what differs -------------------------------------------------------------------------------------------


@pytest.fixture
def copy(canaries, tmp_path):
    """A copy of the run, to be changed: the results file."""
    for file in (canaries, samples_of(canaries, EXPOSURE)):
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path / canaries.name


def change(results, edit):
    data = json.loads(results.read_text())
    edit(data)
    results.write_text(json.dumps(data))
    return score_file(samples_of(results, EXPOSURE)).compared


def test_a_row_that_differs_is_named_with_both_values(copy):
    before = rows(copy, EXPOSURE)["control_exposure,none"]
    compared = change(copy, lambda data: data["results"][EXPOSURE].update({"control_exposure,none": before + 2**-20}))
    assert compared.differences == (f"control_exposure,none: {before + 2**-20!r} in the run, {before!r} here",)
    assert compared.equal == len(rows(copy, EXPOSURE)) - 1


def test_a_row_that_differs_by_rounding_is_equal(copy):
    before = rows(copy, EXPOSURE)["control_exposure,none"]
    compared = change(
        copy, lambda data: data["results"][EXPOSURE].update({"control_exposure,none": math.nextafter(before, math.inf)})
    )
    assert (compared.differences, compared.equal) == ((), len(rows(copy, EXPOSURE)))


def test_a_row_that_is_null_differs_from_one_that_is_zero(copy):
    compared = change(copy, lambda data: data["results"][EXPOSURE].update({"control_exposure,none": None}))
    assert len(compared.differences) == 1


def test_a_row_that_cannot_be_scored_is_named(copy):
    compared = change(copy, lambda data: data["results"][EXPOSURE].update({"magic,none": 1.0}))
    assert compared.differences == ("magic,none: 1.0 in the run, not in the scores",)


def test_rows_that_came_later_are_no_difference(copy):
    compared = change(copy, lambda data: data["results"][EXPOSURE].pop("min_detectable_exposure,none"))
    assert (compared.differences, compared.newer) == ((), ("min_detectable_exposure,none",))
    compared = change(copy, lambda data: data["configs"][EXPOSURE]["leakage"]["hidden_metrics"].pop("rank"))
    assert (compared.differences, compared.newer) == ((), ("rank,none", "min_detectable_exposure,none"))


def test_a_row_that_is_empty_in_later_versions_is_no_difference(copy, monkeypatch):
    before = rows(copy, EXPOSURE)["min_detectable_exposure,none"]
    assert before is not None
    monkeypatch.setattr(power, "least_exposure", lambda canaries, alpha: 1e3)
    scored = score_file(samples_of(copy, EXPOSURE))
    assert (scored.compared.differences, scored.compared.emptied) == ((), ("min_detectable_exposure,none",))
    assert "from an earlier version, now empty: min_detectable_exposure,none\n" in score_text(scored)


def test_a_row_that_was_empty_in_earlier_versions_is_newer(copy):
    name = "min_detectable_exposure,none"
    compared = change(copy, lambda data: data["results"][EXPOSURE].update({name: None}))
    assert (compared.differences, compared.newer) == ((), (name,))


def test_documents_that_are_missing_are_named(copy):
    file = samples_of(copy, EXPOSURE)
    file.write_text("".join(islice(file.open(), 10)))
    assert "the run had 11 documents, the samples hold 10" in score_file(file).compared.differences


def test_without_results_beside_nothing_is_compared(copy):
    copy.unlink()
    assert score_file(samples_of(copy, EXPOSURE)).compared is None


def test_memorization_comes_out_again(tmp_path):
    """From samples alone, which hold no text: controls, shorter prefixes and hidden rows too."""
    (tmp_path / "model").mkdir()
    merging().save_pretrained(tmp_path / "model")
    stream = np.random.default_rng(0)
    for name, count in (("seen", 12), ("unseen", 9)):
        texts = [" ".join(f"{number:04d}" for number in stream.integers(0, 9999, 12)) for _ in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    options = {
        "data": str(tmp_path / "seen.jsonl"),
        "controls": str(tmp_path / "unseen.jsonl"),
        "tokenizer": str(tmp_path / "model"),
        "prefix": "4:8",
        "suffix": 6,
        "windows": 2,
        "distance": "characters",
    }
    results = save(hf(merging()), ["memorization"], tmp_path, options)
    assert equal(results, "memorization") > 100
