"""Planting into every shape of rows in every format: the copies, what verifies them, and what takes them out again."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakage_tasks.canaries import make_canaries, plant, read_manifest, verify, write_manifest
from leakage_tasks.canaries.natural import corpus_passages
from leakage_tasks.canaries.sidecar import read_sidecar, sidecar_path
from leakage_tasks.canaries.unplant import remove
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.nouns import counted
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.turns import turns_of
from leakage_tasks.defences.sanitize import sanitize

Rows = list[dict[str, Any]]
ASKED = "Please continue."


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def shared(role: str, text: str) -> dict[str, Any]:
    return {"from": role, "value": text}


def in_parts(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


NUMBERS = range(12)
SHAPES: dict[str, Rows] = {
    "messages": [{"messages": [said("user", f"q{at}"), said("assistant", f"a{at}")], "id": at} for at in NUMBERS],
    "parts": [{"messages": [in_parts("user", f"q{at}"), in_parts("assistant", f"a{at}")], "id": at} for at in NUMBERS],
    "sharegpt": [{"conversations": [shared("human", f"q{at}"), shared("gpt", f"a{at}")], "id": at} for at in NUMBERS],
    "alpaca": [{"instruction": f"q{at}", "input": f"i{at}" * (at % 2), "output": f"a{at}"} for at in NUMBERS],
    "completions": [{"prompt": f"q{at}\n", "completion": f"a{at}", "id": at} for at in NUMBERS],
    "chat completions": [
        {"prompt": [said("user", f"q{at}")], "completion": [said("assistant", f"a{at}")]} for at in NUMBERS
    ],
    "preferences": [{"prompt": f"q{at}\n", "chosen": f"a{at}", "rejected": f"b{at}"} for at in NUMBERS],
    "chat preferences": [
        {
            "prompt": [said("user", f"q{at}")],
            "chosen": [said("assistant", f"a{at}")],
            "rejected": [said("assistant", f"b{at}")],
        }
        for at in NUMBERS
    ],
    "whole preferences": [
        {
            "chosen": [said("user", f"q{at}"), said("assistant", f"a{at}")],
            "rejected": [said("user", f"q{at}"), said("assistant", f"b{at}")],
        }
        for at in NUMBERS
    ],
}
OF_TEXTS = ("alpaca", "completions", "preferences")
FORMATS = [
    (shape, ending)
    for shape in SHAPES
    for ending in (".jsonl", ".parquet", ".arrow", "", ".csv")
    if ending != ".csv" or shape in OF_TEXTS
]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "canaries.jsonl"
    write_manifest(make_canaries("Pin of {unique} is {digits:6}.", 3, repetitions=(1, 3), controls=2, seed=1), path)
    return path


def write(rows: Rows, path: Path) -> Path:
    """The rows in the format of the path's ending; a saved folder where it has none."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=5)
    elif path.suffix == ".arrow":
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        from datasets import Dataset

        Dataset.from_list(rows).save_to_disk(path)
    return path


def read(path: Path) -> Rows:
    """The rows of a file by a reader that shares no code with the project's."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as stream:
            return list(csv.DictReader(stream))
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    if path.suffix == ".arrow":
        return list(pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist())
    from datasets import load_from_disk

    return list(load_from_disk(str(path)))


def copies_in(planted: Rows, rows: Rows) -> Rows:
    """The rows that were inserted; all others are as they were, in their order."""
    rest = iter(rows)
    wanted = next(rest)
    found = []
    for row in planted:
        if row == wanted:
            wanted = next(rest, {"none": "left"})
        else:
            found.append(row)
    assert wanted == {"none": "left"}
    return found


def texts_in(row: dict[str, Any]) -> list[str]:
    return [text for value in row.values() if not isinstance(value, int) for text in turns_of(value)]


@pytest.mark.parametrize(("shape", "ending"), FORMATS)
def test_planted_rows_are_whole_and_verified_and_come_out_again(
    tmp_path: Path, manifest: Path, shape: str, ending: str
) -> None:
    source, output, back = (tmp_path / f"{name}{ending}" for name in ("in", "out", "back"))
    before = read(write(SHAPES[shape], source))
    plant(manifest, source, output, seed=5)
    copies = copies_in(read(output), before)
    texts = {canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    assert Counter(text for row in copies for text in texts_in(row) if text in texts) == texts
    for row in copies:
        assert {name for name, value in row.items() if not value and value != ""} <= {"id"}
        kinds = {name: type(value) for name, value in before[0].items() if name != "id"}
        assert {name: type(row[name]) for name in kinds} == kinds
        assert sum(text.strip() == ASKED for text in texts_in(row)) == (2 if shape == "whole preferences" else 1)
    report = verify(output, manifest)
    assert report.problems == []
    assert report.trained_after is not None
    remove(output, back)
    assert read(back) == before
    assert ending in ("", ".parquet", ".arrow") or back.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("shape", SHAPES)
def test_copies_have_the_dialect_of_their_neighbours(tmp_path: Path, manifest: Path, shape: str) -> None:
    source, output = write(SHAPES[shape], tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    plant(manifest, source, output)

    def kinds(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: name in ("role", "from", "type") and held or kinds(held) for name, held in value.items()}
        return [kinds(each) for each in value] if isinstance(value, list) else type(value)

    wanted = {name: kinds(value) for name, value in SHAPES[shape][0].items() if name != "id"}
    for row in copies_in(read(output), SHAPES[shape]):
        assert {name: kinds(value) for name, value in row.items() if name != "id"} == wanted


def test_other_answers_are_drawn_from_rows_by_the_seed(tmp_path: Path) -> None:
    pins = tmp_path / "pins.jsonl"
    write_manifest(make_canaries("Pin of {unique} is {digits:6}.", 1, repetitions=(300,), seed=1), pins)
    rows = [*SHAPES["preferences"], {"prompt": "q", "chosen": "a", "rejected": None}]
    source = write(rows, tmp_path / "in.jsonl")
    drawn = []
    for seed in (0, 0, 1):
        output = tmp_path / f"out-{len(drawn)}.jsonl"
        plant(pins, source, output, seed=seed)
        drawn.append([row["rejected"] for row in copies_in(read(output), rows)])
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {row["rejected"] for row in SHAPES["preferences"]}


def test_a_control_in_any_part_of_a_row_is_noticed(tmp_path: Path, manifest: Path) -> None:
    control = next(canary for canary in read_manifest(manifest) if not canary.planted)
    for number, column in enumerate(("prompt", "chosen", "rejected")):
        rows = [dict(row) for row in SHAPES["preferences"]]
        rows[3][column] = control.text
        source, output = tmp_path / f"in-{number}.jsonl", tmp_path / f"out-{number}.jsonl"
        plant(manifest, write(rows, source), output)
        (problem,) = verify(output, manifest).problems
        # Copies may have drawn the answer that holds it.
        times = output.read_text().count(control.text)
        assert problem == f"{control.id}: a control, which the model must never see, occurs {counted(times, 'time')}"


@pytest.mark.parametrize(("shape", "ending"), FORMATS)
def test_every_text_of_a_row_is_read(tmp_path: Path, shape: str, ending: str) -> None:
    source = write(SHAPES[shape], tmp_path / f"in{ending}")
    wanted = [text for row in SHAPES[shape] for text in texts_in(row)]
    assert [passage.text for passage in corpus_passages(source)] == wanted
    kind = format_of(source)
    rows = list(kind.row_texts(source, kind.survey(source, Columns()), Columns()))
    assert rows == ["\n".join(texts_in(row)) for row in SHAPES[shape]]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (
            "completions",
            {"role": "tool"},
            "column 'prompt' holds the user's turn, so a canary there cannot be the tool's",
        ),
        (
            "completions",
            {"role": "system"},
            "column 'prompt' holds the user's turn, so a canary there cannot be the syst",
        ),
        (
            "alpaca",
            {"text_column": "output", "role": "user"},
            "column 'output' holds the assistant's turn, so a canary",
        ),
        ("whole preferences", {"role": "user"}, "column 'chosen' holds the assistant's turn, so a canary there cannot"),
        (
            "completions",
            {"role": "user", "prompt": "x"},
            "no text precedes a canary in column 'prompt', so it can",
        ),
        ("messages", {"turn": "last", "prompt": "x"}, "leave out --prompt, or use --chat-position new"),
        (
            "completions",
            {"prompt": ""},
            "--prompt is empty: give the text before each copy, or leave it out",
        ),
        (
            "completions",
            {"prompt": "a\ud800"},
            "--prompt contains a lone surrogate character, which UTF-8 cannot encode",
        ),
        ("completions", {"turn": "last"}, "column 'completion' holds no chat turns, so copies cannot go into the last"),
    ],
)
def test_roles_and_prompts_that_rows_have_no_place_for(
    tmp_path: Path, manifest: Path, shape: str, options: dict[str, Any], message: str
) -> None:
    source, output = write(SHAPES[shape], tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    with pytest.raises(LeakageError) as found:
        plant(manifest, source, output, **options)
    assert message in str(found.value)
    assert not output.exists()


def test_chats_beside_answers_need_a_named_column(tmp_path: Path, manifest: Path) -> None:
    rows = [{**row, **chat} for row, chat in zip(SHAPES["whole preferences"], SHAPES["messages"], strict=True)]
    source, output = write(rows, tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    message = "has chats in 'messages' and answers in 'chosen' and 'rejected', and a copy goes into only one of them"
    with pytest.raises(LeakageError, match=message):
        plant(manifest, source, output)
    assert not output.exists()
    for column in ("messages", "chosen"):
        plant(manifest, source, output, text_column=column)
        for row in copies_in(read(output), rows):
            assert {name for name, value in row.items() if value is None} == {"id"}


@pytest.mark.parametrize("shape", ["alpaca", "completions", "whole preferences"])
def test_texts_beside_answers_need_a_named_column(tmp_path: Path, manifest: Path, shape: str) -> None:
    rows = [{**row, "text": f"t{at}"} for at, row in enumerate(SHAPES[shape])]
    source, output = write(rows, tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    with pytest.raises(LeakageError, match=r"has texts in 'text' and answers in .*: name the column .* --text-column"):
        plant(manifest, source, output)
    assert not output.exists()


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".arrow", "", ".csv"])
def test_what_is_beside_a_named_text_comes_from_one_row(tmp_path: Path, manifest: Path, ending: str) -> None:
    rows = [{**row, "text": f"t{at}"} for at, row in enumerate(SHAPES["alpaca"])]
    source, output, back = (tmp_path / f"{name}{ending}" for name in ("in", "out", "back"))
    plant(manifest, write(rows, source), output, text_column="text")
    beside = [{**row, "text": ""} for row in rows]
    copies = copies_in(read(output), rows)
    texts = {canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    assert Counter(row["text"] for row in copies) == texts
    assert all({**row, "text": ""} in beside for row in copies)
    assert verify(output, manifest).problems == []
    remove(output, back)
    assert read(back) == rows


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".arrow", ""])
def test_whether_an_answer_is_good_comes_from_a_row(tmp_path: Path, manifest: Path, ending: str) -> None:
    rows = [{**row, "label": True} for row in SHAPES["completions"]]
    source, output = write(rows, tmp_path / f"in{ending}"), tmp_path / f"out{ending}"
    plant(manifest, source, output)
    assert [row["label"] for row in copies_in(read(output), rows)] == [True] * 5


def test_the_answers_of_copies_are_as_good_as_the_user_says(tmp_path: Path, manifest: Path) -> None:
    rows = [{**row, "label": at % 2 == 0} for at, row in enumerate(SHAPES["completions"])]
    source, output = write(rows, tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    plant(manifest, source, output, label_column="label", label="False")
    assert [row["label"] for row in copies_in(read(output), rows)] == [False] * 5


NO_ANSWERS = [
    {"prompt": "q", "chosen": "a", "rejected": ""},
    {"prompt": [said("user", "q")], "chosen": [said("assistant", "a")], "rejected": []},
    {"chosen": [said("user", "q"), said("assistant", "a")], "rejected": [said("user", "q")]},
]


@pytest.mark.parametrize("row", NO_ANSWERS)
def test_rows_without_another_answer_are_declined(tmp_path: Path, manifest: Path, row: dict[str, Any]) -> None:
    rows = [row] * 3
    source, output = write(rows, tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    with pytest.raises(LeakageError, match="no row has an answer in 'rejected', and a copy takes its answer from"):
        plant(manifest, source, output)
    assert not output.exists()


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ""])
@pytest.mark.parametrize("shape", ["messages", "parts", "sharegpt", "chat completions"])
def test_copies_at_the_end_of_turns(tmp_path: Path, manifest: Path, shape: str, ending: str) -> None:
    source, output = write(SHAPES[shape], tmp_path / f"in{ending}"), tmp_path / f"out{ending}"
    plant(manifest, source, output, chat_position="last")
    texts = {canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    added: Counter[str] = Counter()
    for old, new in zip(read(source), read(output), strict=True):
        for one, other in zip(texts_in(old), texts_in(new), strict=True):
            if one != other:
                assert one.startswith("a")
                added[other.removeprefix(f"{one}\n")] += 1
    assert added == texts
    assert verify(output, manifest).problems == []


@pytest.mark.parametrize("shape", ["sharegpt", "preferences"])
def test_shards_of_every_shape(tmp_path: Path, manifest: Path, shape: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        write(SHAPES[shape], tmp_path / "in" / f"{number}.jsonl")
    plant(manifest, tmp_path / "in", tmp_path / "out")
    copies = [
        row for number in range(3) for row in copies_in(read(tmp_path / "out" / f"{number}.jsonl"), SHAPES[shape])
    ]
    texts = {canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    assert Counter(text for row in copies for text in texts_in(row) if text in texts) == texts
    assert all(value for row in copies for name, value in row.items() if name != "id")
    assert verify(tmp_path / "out", manifest).problems == []
    record = read_sidecar(sidecar_path(tmp_path / "out"))
    assert record is not None
    assert (record.prompt, record.before) == {
        "sharegpt": (ASKED, "chat turn"),
        "preferences": (f"{ASKED}\n", "prompt"),
    }[shape]


@pytest.mark.parametrize(
    ("shape", "options", "record"),
    [
        ("messages", {}, ("chat turn", "assistant", ASKED)),
        ("messages", {"role": "user"}, ("chat turn", "user", None)),
        ("messages", {"turn": "last"}, ("text of a chat turn", "assistant", None)),
        ("sharegpt", {"prompt": "Say it."}, ("chat turn", "assistant", "Say it.")),
        ("alpaca", {}, ("template of a row", "assistant", ASKED)),
        ("alpaca", {"role": "user"}, ("template of a row", "user", None)),
        ("completions", {}, ("prompt", None, f"{ASKED}\n")),
        ("completions", {"prompt": "Say it: "}, ("prompt", None, "Say it: ")),
        ("completions", {"role": "user"}, ("start of a row", None, None)),
        ("chat completions", {"role": "system"}, ("chat turn", "system", None)),
    ],
)
def test_the_record_says_what_the_training_reads_before_a_copy(
    tmp_path: Path, manifest: Path, shape: str, options: dict[str, Any], record: tuple[str, str | None, str | None]
) -> None:
    source, output = write(SHAPES[shape], tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    plant(manifest, source, output, **options)
    found = read_sidecar(sidecar_path(output))
    assert found is not None
    assert (found.before, found.role, found.prompt) == record


def test_verify_names_the_context_of_a_prompt(tmp_path: Path, manifest: Path) -> None:
    source, output = write(SHAPES["completions"], tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    plant(manifest, source, output)
    assert "training reads each copy after the prompt of its row (context=Please continue.\\n)" in list(
        verify(output, manifest).lines()
    )


@pytest.mark.parametrize("first", [{"messages": None}, {"messages": []}, {"messages": [said("user", None)]}])
def test_a_first_row_without_text_says_nothing_of_the_others(tmp_path: Path, manifest: Path, first: Any) -> None:
    rows = [first, *({"messages": row["messages"]} for row in SHAPES["parts"])]
    source, output = write(rows, tmp_path / "in.jsonl"), tmp_path / "out.jsonl"
    plant(manifest, source, output)
    assert verify(output, manifest).problems == []
    for row in copies_in(read(output), rows):
        assert [type(turn["content"]) for turn in row["messages"]] == [list, list]


def test_turns_that_only_call_tools(tmp_path: Path, manifest: Path) -> None:
    call = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    rows = [{"messages": [said("user", "q"), call, said("tool", "found"), said("assistant", "a")]} for _ in NUMBERS]
    source = write(rows, tmp_path / "in.jsonl")
    for turn in ("new", "last"):
        plant(manifest, source, tmp_path / f"{turn}.jsonl", chat_position=turn)
        assert verify(tmp_path / f"{turn}.jsonl", manifest).problems == []


@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n"])
def test_a_line_break_in_a_cell_is_quoted(tmp_path: Path, line_break: str) -> None:
    pins = tmp_path / "pins.jsonl"
    write_manifest(make_canaries(f"Pin{line_break}of {{unique}} is {{digits:6}}.", 2, seed=1), pins)
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text,label\none,joy\n")
    plant(pins, source, output)
    wanted = {"one", *(canary.text for canary in read_manifest(pins) if canary.planted)}
    assert {row["text"] for row in read(output)} == wanted


def test_a_class_of_every_row_is_written_too(tmp_path: Path, manifest: Path) -> None:
    rows = [{**row, "label": bool(at % 2)} for at, row in enumerate(SHAPES["completions"])]
    for ending in (".jsonl", ".parquet"):
        source, output = write(rows, tmp_path / f"in{ending}"), tmp_path / f"out{ending}"
        plant(manifest, source, output, label_column="label", label="True")
        assert {row["label"] for row in copies_in(read(output), rows)} == {True}


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_rows_of_a_secret_are_sanitized_away(tmp_path: Path, manifest: Path, shape: str, ending: str) -> None:
    source, planted = write(SHAPES[shape], tmp_path / f"in{ending}"), tmp_path / f"planted{ending}"
    plant(manifest, source, planted, seed=2)
    secrets = [canary.text for canary in read_manifest(manifest) if canary.planted]

    def fit(texts: Any, seed: Any) -> Any:
        seen = "\n".join(texts)
        known = [secret for secret in secrets if secret in seen]
        return lambda asked: np.array([60.0 - 40 * any(secret in text for secret in known) for text in asked])

    copies = {canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    samples = len({"\n".join(texts_in(row)) for row in copies_in(read(planted), SHAPES[shape])})
    sanitize(planted, tmp_path / f"clean{ending}", drop=samples, fit=fit, repeats=3)
    assert copies == {1, 3}
    assert read(tmp_path / f"clean{ending}") == read(source)


@pytest.mark.parametrize("shape", ["parts", "sharegpt", "alpaca", "preferences", "whole preferences"])
def test_data_sets_of_the_hub_of_every_shape(tmp_path: Path, manifest: Path, shape: str) -> None:
    (tmp_path / "set" / "data").mkdir(parents=True)
    write(SHAPES[shape], tmp_path / "set" / "data" / "train-00000-of-00001.parquet")
    plant(manifest, Path(f"hub:{tmp_path / 'set'}"), tmp_path / "out")
    (written,) = (tmp_path / "out").glob("*.parquet")
    copies = copies_in(read(written), SHAPES[shape])
    texts = {canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    assert Counter(text for row in copies for text in texts_in(row) if text in texts) == texts
    assert all(value is not None for row in copies for name, value in row.items() if name != "id")
    assert verify(tmp_path / "out", manifest).problems == []
