"""``leakage score-guesses``: what it prints, writes and refuses."""

import json

import pytest

from tests.report.saved import SUFFIXES, suffix_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The pairs, the guesses that a run wrote, and its figures."""
    folder = tmp_path_factory.mktemp("run")
    results = suffix_run(folder, rows="all", guesses=str(folder / "guesses.csv"))
    return folder / "pairs.jsonl", folder / "guesses.csv", json.loads(results.read_text())["results"][SUFFIXES]


def test_guesses_of_a_run_have_the_runs_own_figures(leakage, run, tmp_path):
    pairs, guesses, row = run
    code, out, err = leakage("score-guesses", guesses, "--data", pairs, "--split", "all", "-o", tmp_path / "out.json")
    (found,) = json.loads((tmp_path / "out.json").read_text())
    assert (code, err) == (0, "")
    assert f"{guesses}       12  12 of 12" in out
    for name in ("recall", "recall_early_stop"):
        assert found[name] == pytest.approx(row[f"{name},none"])
        ends = [row[f"{name}_ci_{end},none"] for end in ("low", "high")]
        assert found[f"{name}_interval"] == pytest.approx(ends)


def test_an_error_of_the_pairs_names_options_of_this_command(refused, run, tmp_path):
    (tmp_path / "data.txt").write_text("any text\n")
    assert "--tokenizer" in refused("score-guesses", run[1], "--data", tmp_path / "data.txt")


def test_a_file_that_is_no_guesses_leaves_no_output(refused, run, tmp_path):
    (tmp_path / "other.csv").write_text("text,label\n")
    output = tmp_path / "out.json"
    err = refused("score-guesses", tmp_path / "other.csv", "--data", run[0], "--split", "all", "-o", output)
    assert err.startswith(f"leakage: {tmp_path / 'other.csv'}: line 1 is 'text,label', expected")
    assert not output.exists()
