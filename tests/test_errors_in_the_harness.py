"""What a user sees of an error inside ``lm_eval``: a failure, with the clear line last."""

import os
import subprocess
import sys

import pytest

from tests.conftest import HARNESS, PATHS


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_the_clear_line_is_the_last_one_and_nothing_is_written(tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"schema": 1, "id": "a"}\n')
    command = ["--model", "dummy", "--tasks", "canary_exposure", "--metadata", f"canaries={tmp_path / 'bad.jsonl'}"]
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, *command, "--output_path", str(tmp_path / "out")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PATHS, "LM_EVAL_LEAKAGE_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith("bad.jsonl:1: field 'template' is missing: add it, or make the manifest again")
    assert not (tmp_path / "out").exists()
