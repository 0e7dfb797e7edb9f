from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.null_results import null_result
from leakage_tasks.report.load.findings import Details, read_details
from leakage_tasks.report.load.results import read_runs
from tests.report.made import STAMP
from tests.report.pages import EXPOSURE, EXTRACTION, canary, pair, write_run


def details(folder: Path, reveal: bool = False) -> Details:
    (run,) = read_runs([folder])
    return read_details(run, reveal=reveal)


def logged(folder: Path, task: str) -> Path:
    return folder / "run-0" / f"samples_{task}_{STAMP}.jsonl"


def test_gathers_the_findings_of_both_tasks_by_canary(tmp_path: Path):
    write_run(tmp_path, "one", [canary("a", rank=4), canary("b", rank=1, repetitions=7)])
    first, second = details(tmp_path).canaries
    assert (first.id, first.bits, first.extracted) == ("a", pytest.approx(19.931568569324174 - 2), False)
    assert (second.tier, second.extracted, second.secret) == (7, True, tuple("123456"))


def test_marks_the_right_slots_of_every_guess(tmp_path: Path):
    write_run(tmp_path, "one", [canary("a", rank=4, guesses=[list("123450"), list("923456"), list("000000")])])
    (found,) = details(tmp_path).canaries
    marks = ["".join(str(int(each)) for each in found.right(place) or ()) for place in range(3)]
    assert marks == ["111110", "011111", "000000"]


def test_natural_canaries_keep_their_band_alone_even_if_the_run_revealed_them(tmp_path: Path):
    write_run(tmp_path, "one", [canary("a", rank=1, kind="natural", reveal=True)])
    (found,) = details(tmp_path).canaries
    assert found.exposure is not None
    assert found.extraction is not None
    assert (found.exposure.coarse, found.extraction.coarse) == (True, True)
    assert (found.template, found.secret, found.extracted, found.right(0)) == (None, None, None, None)


def test_a_document_that_holds_what_a_natural_one_must_not_is_not_believed(tmp_path: Path):
    doc, ranked, searched = canary("a", rank=1, kind="natural", reveal=True)
    doc |= {"template": "call {digits:6}", "secret": list("123456"), "kind": "random", "label": "who"}
    write_run(tmp_path, "one", [(doc, ranked, searched)])
    (found,) = details(tmp_path).canaries
    assert (found.template, found.secret, found.label) == (None, None, None)


def test_one_finding_of_a_natural_secret_hides_what_the_other_tells(tmp_path: Path):
    doc, ranked, searched = canary("a", rank=1, guesses=[list("123456")])
    ranked = replace(ranked, guesses=searched.guesses)
    write_run(tmp_path, "one", [(doc, ranked, replace(searched, kind="natural"))])
    (found,) = details(tmp_path).canaries
    assert (found.template, found.secret) == (None, None)
    assert found.exposure is not None
    assert found.exposure.guesses == ()
    assert found.exposure.coarse


def test_revealed_natural_guesses_tell_the_secret_where_one_of_them_is_it(tmp_path: Path):
    guesses = [list("000000"), list("123456")]
    write_run(tmp_path, "one", [canary("a", rank=1, kind="natural", reveal=True, guesses=guesses)])
    (found,) = details(tmp_path, reveal=True).canaries
    assert found.secret == tuple("123456")
    assert found.right(1) == (True,) * 6


def test_the_same_id_in_two_manifests_is_two_canaries(tmp_path: Path):
    (doc, ranked, _), (_, _, searched) = canary("a", rank=1, manifest="one"), canary("a", rank=1)
    write_run(tmp_path, "one", [(doc, ranked, searched)])
    assert [(each.bits is None, each.extracted) for each in details(tmp_path).canaries] == [(False, None), (True, True)]


def test_tokens_of_pairs_are_kept_only_when_revealing(tmp_path: Path):
    write_run(tmp_path, "one", pairs=[pair(3, reveal=True)])
    assert details(tmp_path).pairs[0].suffix == ()
    assert details(tmp_path).pairs[0].selected.finding.guesses == ()
    assert details(tmp_path, reveal=True).pairs[0].suffix == (91, 92, 93, 94)


def test_pairs_that_the_model_never_saw_are_none_of_its_pairs(tmp_path: Path):
    write_run(tmp_path, "one", pairs=[pair(0), pair(-1)])
    read = details(tmp_path)
    assert ([each.selected.pair for each in read.pairs], read.left_out) == ([0], 0)


def test_counts_pairs_that_were_left_out(tmp_path: Path):
    doc, found = pair(1)
    found.views.clear()
    write_run(tmp_path, "one", pairs=[pair(0)])
    with logged(tmp_path, "suffix_extraction").open("a") as file:
        file.write(json.dumps({"doc": doc, "filter": "none", "resps": [[found.to_json()]]}) + "\n")
    read = details(tmp_path)
    assert (len(read.pairs), read.left_out) == (1, 1)


def test_other_columns_are_passed_over(tmp_path: Path):
    write_run(tmp_path, "one", pairs=[pair(0)])
    path = logged(tmp_path, "suffix_extraction")
    path.write_text(path.read_text() + path.read_text().replace('"filter": "none"', '"filter": "zlib"'))
    assert len(details(tmp_path).pairs) == 1


def test_says_how_to_get_samples_where_there_are_none(tmp_path: Path):
    write_run(tmp_path, "one", [canary("a", rank=1)], logged=False)
    assert "--log_samples" in details(tmp_path).missing[EXPOSURE]


def test_says_why_a_task_was_not_answered(tmp_path: Path):
    write_run(tmp_path, "one", [canary("a", rank=1)])
    row = {"doc": {"id": "a"}, "filter": "none", "resps": [[null_result("no probabilities")]]}
    logged(tmp_path, EXTRACTION).write_text(json.dumps(row) + "\n")
    read = details(tmp_path)
    assert read.missing == {EXTRACTION: "not answered: no probabilities"}
    assert read.canaries[0].extracted is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            b'{"resps": [["{}"]]}',
            f"field 'resps': no finding of {EXPOSURE}: give the file as lm_eval wrote it, or move",
        ),
        (b'{"resps": [[3]], "doc": {}}', f"field 'resps': no finding of {EXPOSURE}: "),
    ],
)
def test_names_file_and_line_that_hold_no_finding(tmp_path: Path, line: bytes, problem: str):
    write_run(tmp_path, "one", [canary("a", rank=1)])
    with logged(tmp_path, EXPOSURE).open("ab") as file:
        file.write(b"\n" + line + b"\n")
    with pytest.raises(ResultsError, match=rf"samples_canary_exposure_.*\.jsonl:3: {problem}"):
        details(tmp_path)
