"""``leakage score-guesses``: what it prints, writes and refuses."""

import json

import pytest

from leakage_tasks.pairs.source import Source, read_pairs
from leakage_tasks.pairs.submission import SuffixGuess, write_submission
from tests.oracles import letters
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


def test_guesses_of_windows_with_a_stride_are_scored_on_these_windows(leakage, refused, tmp_path):
    letters().save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "data.txt").write_text("abcdefghij klmnopqrst uvwxyz\n")
    text = {"data": str(tmp_path / "data.txt"), "tokenizer": str(tmp_path / "tokenizer")}
    # The default of suffix_extraction with a stride.
    pairs = read_pairs(Source(**text, split="all", prefix_length=3, suffix_length=2, stride=2))
    write_submission(tmp_path / "guesses.csv", [SuffixGuess(n, pair.suffix, 1.0) for n, pair in enumerate(pairs)])
    words = [word for name, value in text.items() for word in (f"--{name}", value)]
    command = ("score-guesses", tmp_path / "guesses.csv", *words, "--prefix-length", 3, "--suffix-length", 2)
    _, out, _ = leakage(*command, "--stride", 2, "-o", tmp_path / "out.json")
    (found,) = json.loads((tmp_path / "out.json").read_text())
    assert (found["recall"], found["pairs_guessed"]) == (1, len(pairs))
    assert refused(*command, "--stride", 0).startswith("leakage: --stride=0: expected a number of tokens, 1 or more")


def test_an_error_of_the_pairs_names_options_of_this_command(refused, run, tmp_path):
    (tmp_path / "data.txt").write_text("any text\n")
    assert "--tokenizer" in refused("score-guesses", run[1], "--data", tmp_path / "data.txt")


def test_a_file_that_is_no_guesses_leaves_no_output(refused, run, tmp_path):
    (tmp_path / "other.csv").write_text("text,label\n")
    output = tmp_path / "out.json"
    err = refused("score-guesses", tmp_path / "other.csv", "--data", run[0], "--split", "all", "-o", output)
    assert err.startswith(f"leakage: {tmp_path / 'other.csv'}: line 1 is 'text,label', expected")
    assert not output.exists()


def test_guesses_on_chats_are_refused_and_those_on_their_rendered_text_are_scored(leakage, refused, tmp_path):
    letters().save_pretrained(tmp_path / "tokenizer")
    chats, rendered = tmp_path / "chats.jsonl", tmp_path / "rendered.jsonl"
    turns = [{"role": "user", "content": "abcde"}, {"role": "assistant", "content": "fghij"}]
    chats.write_text(json.dumps({"messages": turns}) + "\n")
    rendered.write_text(json.dumps({"text": "abcdexfghij"}) + "\n")
    write_submission(tmp_path / "guesses.csv", [SuffixGuess(0, (1, 2), 1.0)])
    options = ("--tokenizer", tmp_path / "tokenizer", "--split", "all", "--prefix-length", 3, "--suffix-length", 2)
    assert refused("score-guesses", tmp_path / "guesses.csv", "--data", chats, *options) == (
        f"leakage: {chats}: holds chats, and this command reads no chat template: save the rows as the text that the "
        "model reads, or give pairs of token ids\n"
    )
    assert leakage("score-guesses", tmp_path / "guesses.csv", "--data", rendered, *options)[0] == 0


def test_pairs_of_token_ids_beside_chats_are_scored(leakage, tmp_path):
    row = {"prefix": [1, 2], "suffix": [3, 4], "messages": [{"role": "user", "content": "abcde"}]}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    write_submission(tmp_path / "guesses.csv", [SuffixGuess(0, (3, 4), 1.0)])
    command = ("score-guesses", tmp_path / "guesses.csv", "--data", tmp_path / "pairs.jsonl", "--split", "all")
    assert leakage(*command)[0] == 0
