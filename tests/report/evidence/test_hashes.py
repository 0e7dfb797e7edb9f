from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.evidence import hashes
from leakage_tasks.report.evidence.record import Evidence
from tests.report.made import STAMP


def test_files_of_results_and_samples_have_their_sha256(evidence: Evidence, results: Path):
    stated = {each.name: each.digest for each in hashes.of_kind(evidence.hashes, hashes.RESULTS, hashes.SAMPLES)}
    assert stated == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in results.iterdir()}
    assert f"results_{STAMP}.json" in stated


def test_recorded_identities_name_their_source(evidence: Evidence):
    recorded = {(each.kind, each.digest): each.source for each in evidence.hashes}
    assert recorded["model identity", "ab" * 20] == "recorded by the harness: commit on the hub"
    assert recorded["harness", "0123abc"] == "recorded by the harness: commit of the folder in which it ran"
    assert recorded["planted data", "cd" * 32] == "recorded in the results: file of planted="
    assert recorded["manifest", "ab" * 32] == "recorded in the results: canaries' content"
    assert all(recorded.values())


def test_a_model_s_folder_gives_weights_settings_and_tokenizer(model: Path):
    found = hashes.model_hashes(model)
    assert {each.name: each.digest for each in found} == {
        name: hashlib.sha256(name.encode()).hexdigest()
        for name in ("config.json", "model.safetensors", "tokenizer.model")
    }


def test_a_single_file_is_a_model(model: Path):
    (found,) = hashes.model_hashes(model / "README.md")
    assert found.name == "README.md"


def test_a_folder_without_a_model_is_an_error(tmp_path: Path):
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(ResultsError, match="holds no files of a model: give the model's folder"):
        hashes.model_hashes(tmp_path)


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ('{"url": "x", "vcs_info": {"vcs": "git", "commit_id": "abc"}}', "abc"),
        ('{"url": "x", "dir_info": {}}', None),
        ("[]", None),
        ("no json", None),
        (None, None),
    ],
)
def test_the_commit_is_the_installer_s(monkeypatch: pytest.MonkeyPatch, text: str | None, commit: str | None):
    class Installed:
        def read_text(self, name: str) -> str | None:
            return text if name == "direct_url.json" else None

    def distribution(name: str) -> Any:
        return Installed()

    monkeypatch.setattr(hashes, "distribution", distribution)
    assert hashes.commit_of("lm_eval") == commit
    assert [each.digest for each in hashes.code_hashes()] == ([commit] * 2 if commit else [])


def test_the_code_s_hash_covers_sources_and_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a.py", "b.html", "c.css"):
        (tmp_path / name).write_text("one")
    (tmp_path / "d.pyc").write_text("one")

    def digest() -> str:
        hashes.this_code.cache_clear()
        return hashes.this_code().sources

    try:
        with monkeypatch.context() as patched:
            patched.setattr(hashes.resources, "files", lambda name: tmp_path)
            before = digest()
            (tmp_path / "d.pyc").write_text("two")
            assert digest() == before
            (tmp_path / "c.css").write_text("two")
            changed = digest()
            (tmp_path / "c.css").rename(tmp_path / "e.css")
            assert len({before, changed, digest()}) == 3
    finally:
        hashes.this_code.cache_clear()
