"""The command line: what it prints, its exit codes, one line an error."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.canaries import make_canaries, read_manifest, word_list, write_manifest
from leakage_tasks.canaries.generate import nonce_of
from tests.conftest import Leakage, Ran, Refused

TOO_FEW = (
    "leakage: warning: too few canaries for intervals ({}; an interval takes 10 planted equally often): use --count {} "
    "or more, or --profile routine\n"
)
NO_CONTROLS = "leakage: warning: no controls, so results have no verdict: use --controls 100, or --profile routine\n"
TEMPLATE = "The random number of {unique} is {digits:9}."


def test_canaries(tmp_path: Path, leakage: Leakage) -> None:
    path = tmp_path / "canaries.jsonl"
    options = ("--count", 4, "--repetitions", "1,10", "--controls", 4, "--seed", 0)
    code, out, err = leakage("canaries", "--template", TEMPLATE, *options, "-o", path)
    assert (code, err) == (0, TOO_FEW.format("2 planted once, 2 planted 10 times", 20))
    assert out == (f"{path}: 4 canaries (22 copies to plant), 4 controls; space of 1,000,000,000 secrets, 29.9 bits\n")
    named = {"id_prefix": f"{nonce_of(0)}-", "nonce": nonce_of(0)}
    expected = make_canaries(TEMPLATE, 4, repetitions=(1, 10), controls=4, seed=0, **named)
    assert read_manifest(path) == [replace(canary, seed=0) for canary in expected]


def test_without_a_seed_no_two_manifests_share_a_secret_a_prefix_or_an_id(tmp_path: Path, leakage: Leakage) -> None:
    found = []
    for name in ("a.jsonl", "b.jsonl"):
        options = ("--count", 20, "--controls", 20, "-o", tmp_path / name)
        assert leakage("canaries", "--template", TEMPLATE, *options)[0] == 0
        found.append(read_manifest(tmp_path / name))
    for what in ("id", "template", "secret"):
        first, second = ({getattr(canary, what) for canary in canaries} for canaries in found)
        assert first.isdisjoint(second)


def test_the_seed_in_the_manifest_makes_it_again(tmp_path: Path, leakage: Leakage) -> None:
    first, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    options = ("--template", TEMPLATE, "--count", 3, "--controls", 2)
    assert leakage("canaries", *options, "-o", first)[0] == 0
    seeds = {canary.seed for canary in read_manifest(first)}
    assert leakage("canaries", *options, "--seed", seeds.pop(), "-o", again)[0] == 0
    assert not seeds
    assert again.read_bytes() == first.read_bytes()


@pytest.mark.parametrize(("template", "seed", "warned"), [(TEMPLATE, 0, True), (TEMPLATE, 1, False)])
def test_planting_secrets_that_everybody_has_is_warned_of(
    tmp_path: Path, ran: Ran, template: str, seed: int, warned: bool
) -> None:
    source, manifest = tmp_path / "train.txt", tmp_path / "c.jsonl"
    source.write_text("one\ntwo\n")
    write_manifest(make_canaries(template, 4, controls=4, seed=seed), manifest)
    _, err = ran("plant", manifest, source, "-o", tmp_path / "planted.txt")
    assert ("holds secrets of this package's README or demo" in err) == warned


def test_planting_reads_a_pipe_once(tmp_path: Path, leakage: Leakage) -> None:
    source, manifest = tmp_path / "train.txt", tmp_path / "pipe"
    source.write_text("one line of many more\n" * 400)
    write_manifest(make_canaries(TEMPLATE, 4, controls=4, seed=1), tmp_path / "c.jsonl")
    os.mkfifo(manifest)
    writer = threading.Thread(target=manifest.write_bytes, args=((tmp_path / "c.jsonl").read_bytes(),), daemon=True)
    writer.start()
    code, out, err = leakage("plant", manifest, source, "-o", tmp_path / "planted.txt")
    assert (code, err) == (0, "")
    assert "4 copies of 4 canaries" in out


def test_canaries_with_everything(tmp_path: Path, leakage: Leakage, byte_level: Path) -> None:
    path, colours = tmp_path / "canaries.jsonl", tmp_path / "colours.txt"
    colours.write_text("red\nblue\n")
    template = "{unique}: {colour} {words:2}{tokens}"
    lists = ("--words", f"colour={colours}", "--tokenizer", byte_level)
    classes = ("--label", "a", "--supporting", 2, "--supporting-labels", "a,b,c", "--supporting-slots", 2)
    more = (
        "--tags",
        "O,O,B-pin,I-pin",
        "--known",
        "{colour} {words:2}{tokens}",
        "--id-prefix",
        "x-",
        "--count",
        2,
        "--seed",
        0,
    )
    code, out, err = leakage("canaries", "--template", template, *lists, *classes, *more, "-o", path)
    assert (code, err) == (0, TOO_FEW.format("2 planted once", 10) + NO_CONTROLS)
    assert "2 canaries and 4 supporting canaries (6 copies to plant)" in out
    canary, helper, *_ = read_manifest(path)
    assert canary.alphabets["colour"] == word_list("colour", ["red", "blue"])
    assert (canary.id, canary.label, helper.label) == (f"x-{nonce_of(canary.seed)}-canary-0", "a", "b")
    assert canary.tags == ("O", "O", "B-pin", "I-pin")
    assert helper.secret[:2] == canary.secret[:2]


def test_a_shared_prefix_is_said_in_one_line(tmp_path: Path, ran: Ran) -> None:
    _, err = ran("canaries", "--template", "pin {digits:4}", "--count", 2, "-o", tmp_path / "c.jsonl")
    assert err.startswith("leakage: warning: the template has no {unique}: 2 canaries share a prefix and compete")
    assert err.splitlines(keepends=True)[1:] == [TOO_FEW.format("2 planted once", 10), NO_CONTROLS]


def test_plant_and_verify(tmp_path: Path, manifest: Path, leakage: Leakage, ran: Ran) -> None:
    source, output = tmp_path / "train.txt", tmp_path / "planted.txt"
    source.write_text("one\ntwo\n")
    out, _ = ran("plant", manifest, source, "-o", output, "--seed", 3)
    assert out == (
        f"{output}: 22 copies of 4 canaries among 2 rows of 'text'; left out: 4 controls; labels not written, "
        "as no label column was named; record in planted.txt.leakage.json\n"
    )
    out, _ = ran("verify", output, manifest, "--chunk", 10_000)
    assert out.splitlines()[2:] == ["a chunk of 10000 characters cuts no copy"]
    output.write_text(output.read_text() + "more\n")
    code, out, err = leakage("verify", output, manifest)
    assert (code, err) == (1, "")
    assert "changed since it was planted" in out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["canaries", "--template", "{digits}", "--repetitions", "1,٣", "-o", "x.jsonl"], "--repetitions is '1,٣'"),
        (["canaries", "--template", "{digits}", "--words", "x", "-o", "x.jsonl"], "--words is 'x'"),
        (["canaries", "--template", "{x}", "--words", "x=none.txt", "-o", "x.jsonl"], "none.txt: cannot read"),
        (["canaries", "--template", "{digits}", "-o", "none/x.jsonl"], "cannot be written"),
        (["plant", "in.txt", "in.txt", "-o", "out.txt"], "in.txt:1: not JSON"),
        (["verify", "none.txt", "canaries.jsonl"], "no such file"),
        (["verify", "bad.txt", "canaries.jsonl"], "not UTF-8"),
        (["verify", "in.txt", "canaries.jsonl", "--chunk", "9", "--tokenizer", "./none"], "no such folder"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path,
    manifest: Path,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert message in refused(*arguments)
    assert sorted(tmp_path.iterdir()) == before


def test_usage_errors_exit_with_2(leakage: Leakage) -> None:
    assert leakage("canaries")[0] == 2
    assert leakage("plant", "a")[0] == 2


def test_the_commands_load_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "datasets", "pyarrow", "numpy", "tokenizers")
    commands = "from leakage_tasks.cli import canaries, plant, verify"
    code = f"import sys\n{commands}\nprint([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_root())
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("line_break", ["\n", " "])
def test_a_large_text_file_passes_in_little_memory(tmp_path: Path, manifest: Path, line_break: str) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    block = ("the quick brown fox jumps over the lazy dog été" + line_break) * 20_000
    with source.open("w", encoding="utf-8") as out:
        while out.tell() < 200 << 20:
            out.write(block)
    code = (
        "import re, sys\nfrom pathlib import Path\nfrom leakage_tasks.canaries import plant, verify\n"
        "m, s, o = map(Path, sys.argv[1:])\nplant(m, s, o)\nassert verify(o, m, 1000).ok\n"
        # ru_maxrss would start from the memory of the test process, which exec does not reset.
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    command = [sys.executable, "-c", code, str(manifest), str(source), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_root())
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) / 1024 < 300
    assert output.stat().st_size > source.stat().st_size


def _root() -> Path:
    return Path(__file__).resolve().parents[2]


def test_the_class_that_was_found_is_told(tmp_path):
    from leakage_tasks.canaries import make_canaries
    from leakage_tasks.cli.canaries import _summary

    canaries = make_canaries("pin {unique} {digits:4}", 2, label="rare", supporting=1, supporting_labels=["other"])
    assert _summary(canaries, tmp_path / "c.jsonl").endswith("; class 'rare'")
    one = _summary(make_canaries("pin {unique} {digits:4}", 1, controls=1), tmp_path / "c.jsonl")
    assert one.endswith(": 1 canary (1 copy to plant), 1 control; space of 10,000 secrets, 13.3 bits")
