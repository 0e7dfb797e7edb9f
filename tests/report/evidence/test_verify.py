from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.evidence.files import NO_FILES, Files
from leakage_tasks.report.evidence.page import page, record_in
from leakage_tasks.report.evidence.record import Evidence, canonical, digest_of, evidence_from_json
from leakage_tasks.report.evidence.verify import verify
from leakage_tasks.report.publish import write_report
from tests.conftest import Leakage, Refused
from tests.report.evidence.leaves import another, changed, leaves
from tests.report.made import STAMP
from tests.report.pages import usual_canaries, write_run


@pytest.fixture(scope="module")
def report(evidence: Evidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(evidence), encoding="utf-8")
    return path


@pytest.fixture
def copy(results: Path, tmp_path: Path) -> Path:
    """A copy of the results."""
    return Path(shutil.copytree(results, tmp_path / "copy"))


def edited(report: Path, place: Path, old: str, new: str) -> Path:
    """A copy of the report with one text exchanged."""
    text = report.read_text(encoding="utf-8")
    assert old in text
    place.write_text(text.replace(old, new), encoding="utf-8")
    return place


def failures(path: Path, files: Files = NO_FILES) -> list[str]:
    return [outcome.words for outcome in verify(path, files).outcomes if outcome.passed is not True]


def with_record(text: str, record: str, *, digest: bool) -> str:
    """The page with another record, and with its digest or with the old one."""
    old = record_in(text)
    assert old is not None
    made = text.replace(f">{old}</script>", f">{record}</script>")
    return made.replace(digest_of(old), digest_of(record)) if digest else made


def test_an_untouched_report_passes(report: Path, results: Path, model: Path):
    outcomes, _ = verify(report, Files(results=results, model=(model,)))
    assert [outcome for outcome in outcomes if not outcome.passed] == []
    starts = [outcome.words.split(":")[0].split()[0] for outcome in outcomes]
    assert starts == ["record", "page", "results", "samples", "samples", "figures", "model", "model", "model"]


@pytest.mark.slow
@given(data=st.data(), consistent=st.booleans())
def test_an_edited_leaf_of_the_record_fails(
    report: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, consistent: bool
):
    """Also if the editor computes the digest of the new record, but leaves the shown figures."""
    text = report.read_text(encoding="utf-8")
    plain = json.loads(record_in(text) or "")
    path, value = data.draw(st.sampled_from(list(leaves(plain))))
    made = json.dumps(changed(plain, path, another(value)), sort_keys=True, separators=(",", ":"))
    for letter in "<>&":
        made = made.replace(letter, f"\\u{ord(letter):04x}")
    place = tmp_path_factory.mktemp("edited") / "report.html"
    place.write_text(with_record(text, made, digest=consistent), encoding="utf-8")
    assert failures(place), path


def test_an_edited_figure_on_the_page_fails(report: Path, evidence: Evidence, tmp_path: Path):
    value = evidence.results[0].value
    path = edited(report, tmp_path / "a.html", f'<data value="{value}">', '<data value="0.0">')
    assert failures(path) == ["page: differs from the page of its record: the page was edited"]


def test_an_edited_digest_fails(report: Path, evidence: Evidence, tmp_path: Path):
    digest = digest_of(canonical(evidence))
    path = edited(report, tmp_path / "a.html", digest, "0" * 64)
    assert failures(path)[0].startswith(f"record: SHA-256 {digest}, but the page prints {'0' * 64}")


def test_a_record_that_is_not_canonical_fails(report: Path, tmp_path: Path):
    text = report.read_text(encoding="utf-8")
    spaced = json.dumps(json.loads(record_in(text) or "")).replace("<", "\\u003c")
    path = tmp_path / "a.html"
    path.write_text(with_record(text, spaced, digest=True), encoding="utf-8")
    assert failures(path) == ["record: not in its canonical form: the record was edited"]


def test_a_consistent_forgery_passes_by_itself_and_fails_against_the_results(
    report: Path, results: Path, tmp_path: Path
):
    """Without a signature a page can be forged as a whole, which the results show."""
    plain = json.loads(record_in(report.read_text(encoding="utf-8")) or "")
    plain["results"][0]["value"] = 0.0
    path = tmp_path / "a.html"
    path.write_text(page(evidence_from_json(plain)), encoding="utf-8")
    assert failures(path) == []
    assert failures(path, Files(results=results)) == ["figures: results differ from the results"]


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("planted data", "0" * 64),
        ("manifest", "0" * 64),
        ("model identity", "0" * 40),
        ("harness", "1"),
        ("samples", ""),
    ],
)
def test_hashes_that_the_results_do_not_record_fail_against_the_results(
    report: Path, results: Path, tmp_path: Path, kind: str, digest: str
):
    """Otherwise another training file could pass as the planted data, and changed samples could be left out."""
    plain = json.loads(record_in(report.read_text(encoding="utf-8")) or "")
    others = [stated for stated in plain["hashes"] if stated["kind"] != kind]
    assert len(others) < len(plain["hashes"])
    changed_ = [{**stated, "digest": digest} for stated in plain["hashes"] if stated["kind"] == kind and digest]
    path = tmp_path / "a.html"
    path.write_text(page(evidence_from_json({**plain, "hashes": [*others, *changed_]})), encoding="utf-8")
    assert failures(path, Files(results=results)) == ["figures: hashes differ from the results"]


def test_other_code_is_no_forgery_but_cannot_be_checked(report: Path, tmp_path: Path, leakage: Leakage):
    plain = json.loads(record_in(report.read_text(encoding="utf-8")) or "")
    plain["code"]["sources"] = "f" * 64
    text = page(evidence_from_json(plain)).replace("<h2>1 Summary</h2>", "<h2>1 In short</h2>")
    path = tmp_path / "a.html"
    path.write_text(text, encoding="utf-8")
    code, out, err = leakage("verify-report", path)
    assert code == 2
    assert "FAIL" not in out
    assert "but other code wrote it (lm-eval-leakage 0.1.0, sources ffffffffffff…): check it with that code" in err


def test_other_extensions_leave_the_lists_of_tests_unchecked(evidence: Evidence, results: Path, tmp_path: Path):
    """Another package may add tasks and attacks, which the report then lists."""
    path = tmp_path / "a.html"
    for extensions, passed in ((("their-attacks 1.0",), None), ((), False)):
        code = dataclasses.replace(evidence.code, extensions=extensions)
        made = dataclasses.replace(evidence, omissions=evidence.omissions[1:], code=code)
        path.write_text(page(made), encoding="utf-8")
        (found,) = [outcome for outcome in verify(path, Files(results=results)).outcomes if outcome.passed is not True]
        assert found.passed is passed
        assert "omissions" in found.words


def test_changed_results_fail(report: Path, copy: Path):
    file = copy / f"results_{STAMP}.json"
    file.write_text(file.read_text().replace('"acc,none": 0.61', '"acc,none": 0.62'))
    found = failures(report, Files(results=copy))
    assert found[0].startswith(f"results file {file.name}: has SHA-256 ")
    assert found[1] == "figures: results differ from the results"


def test_changed_samples_fail(report: Path, copy: Path):
    file = copy / f"samples_canary_exposure_{STAMP}.jsonl"
    file.write_text(file.read_text().replace('"doc_id": 0,', '"doc_id":  0,'))
    assert [words.split(":")[0] for words in failures(report, Files(results=copy))] == [f"samples {file.name}"]


def test_missing_samples_fail(report: Path, copy: Path):
    file = copy / f"samples_canary_exposure_{STAMP}.jsonl"
    file.unlink()
    assert failures(report, Files(results=copy))[0] == f"samples {file.name}: not found"


def test_changed_missing_and_added_model_files_fail(report: Path, model: Path, tmp_path: Path):
    copy = Path(shutil.copytree(model, tmp_path / "model"))
    (copy / "config.json").write_text("other")
    (copy / "tokenizer.model").unlink()
    (copy / "extra.safetensors").write_text("more")
    (copy / "README.md").write_text("a card is no part of the model")
    assert failures(report, Files(model=(copy,))) == [
        f"model file config.json: has SHA-256 {_sha256('other')}, the report states {_sha256('config.json')}",
        "model file tokenizer.model: not found",
        "model file extra.safetensors: not in the report",
    ]


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """An adapter on a base model, and the results of a run with it."""
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    (folder / "adapter_model.safetensors").write_text("adapter")
    (folder / "tokenizer.model").write_text("tokenizer.model")
    write_run(tmp_path / "results", str(folder), usual_canaries(0.9))
    return folder


def test_without_the_adapter_s_folder_the_protocol_is_that_of_the_results(adapter: Path):
    results, path = adapter.parent / "results", adapter.parent / "a.html"
    write_report(results, path)
    adapter.rename(adapter.with_name("moved"))
    assert failures(path, Files(results=results)) == []


@pytest.mark.parametrize("moved", [False, True])
def test_a_base_model_without_hashes_is_named(adapter: Path, moved: bool):
    results, path = adapter.parent / "results", adapter.parent / "a.html"
    folder = adapter.rename(adapter.with_name("moved")) if moved else adapter
    write_report(results, path, model=folder)
    outcomes, notes = verify(path, Files(results=results, model=(folder,)))
    assert [outcome for outcome in outcomes if not outcome.passed] == []
    assert notes[-2] == (
        f"not checked: parts of the model org/base + {adapter}: 1 of 2 have hashes of files (write the report with "
        "--model for each)"
    )


def test_two_files_of_the_adapter_are_no_base_model(adapter: Path):
    path, files = adapter.parent / "a.html", [adapter / "adapter_config.json", adapter / "adapter_model.safetensors"]
    write_report(adapter.parent / "results", path, model=files)
    assert any("1 of 2 have hashes of files" in note for note in verify(path, Files(model=files)).notes)


def test_another_base_model_fails(adapter: Path, model: Path, tmp_path: Path):
    path, base = adapter.parent / "a.html", Path(shutil.copytree(model, tmp_path / "base"))
    (base / "tokenizer.model").write_text("of the base")
    write_report(adapter.parent / "results", path, model=[base, adapter])
    assert not [note for note in verify(path, Files(model=(adapter, base))).notes if "model" in note]
    (base / "model.safetensors").write_text("other")
    other = f"has SHA-256 {_sha256('other')}, the report states {_sha256('model.safetensors')}"
    assert failures(path, Files(model=(adapter, base))) == [f"model file model.safetensors: {other}"]
    assert failures(path, Files(model=(adapter,))) == [
        "model file config.json: not found",
        "model file model.safetensors: not found",
        "model file tokenizer.model: not found",
    ]


def _sha256(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("model", "holds no hashes of model files: write it with --model"),
        ("manifest", "names no manifest: leave the option out"),
        ("data", "holds no hash of data files: write it with --data"),
    ],
)
def test_a_file_without_a_hash_in_the_report_cannot_be_checked(evidence: Evidence, tmp_path: Path, kind: str, why: str):
    path = tmp_path / "a.html"
    path.write_text(page(dataclasses.replace(evidence, hashes=())), encoding="utf-8")
    with pytest.raises(ResultsError, match=why):
        verify(path, Files(**{kind: path if kind == "manifest" else [path]}))


def test_another_manifest_and_other_data_fail(report: Path, tmp_path: Path):
    write_manifest(make_canaries("{unique} pin {digits:3}", 2), tmp_path / "other.jsonl")
    (found,) = failures(report, Files(manifest=tmp_path / "other.jsonl"))
    assert found.startswith("manifest other.jsonl: has SHA-256 ")
    assert found.endswith(f"the report states {'ab' * 32}")
    (found,) = failures(report, Files(data=[tmp_path / "other.jsonl"]))
    assert found.startswith("data other.jsonl: has SHA-256 ")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<html></html>", "holds no record of an evidence report"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b'<script type="application/json" id="record">{}</script>' * 2, "holds no record"),
    ],
)
def test_another_file_is_no_report(tmp_path: Path, content: bytes, why: str, refused: Refused):
    path = tmp_path / "a.html"
    path.write_bytes(content)
    assert why in refused("verify-report", path)


def test_the_command_says_what_it_checked_and_what_not(report: Path, results: Path, leakage: Leakage):
    code, out, err = leakage("verify-report", report, "--results", results)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in lines] == ["PASS"] * 6 + ["note"] * 4
    assert lines[-4:-1] == [
        "note  not checked: model file (give --model)",
        "note  not checked: manifest (give --manifest)",
        "note  not checked: planted data (give --data)",
    ]
    assert "who made the report" in lines[-1]


def test_the_command_fails_for_an_edited_report(report: Path, tmp_path: Path, leakage: Leakage):
    path = edited(report, tmp_path / "a.html", "<h2>5 Limits</h2>", "<h2>5 No limits</h2>")
    code, out, _ = leakage("verify-report", path)
    assert code == 1
    assert "FAIL  page: differs from the page of its record" in out
