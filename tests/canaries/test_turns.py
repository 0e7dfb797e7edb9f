"""Copies at the end of turns that are there: which turns, what stays as it is, and that they are found again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chisquare

from leakage_tasks import plant as plant_in_memory
from leakage_tasks import verify as verify_in_memory
from leakage_tasks.canaries import make_canaries, plant, read_manifest, verify, write_manifest
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.sidecar import planted_role, read_sidecar, sidecar_path
from leakage_tasks.core.errors import LeakageError

CALL = {"type": "function", "function": {"name": "look_up", "arguments": '{"n": 1e3, "s": "\\u00e9"}'}}


def chat(number: int, long: bool = True) -> list[dict[str, Any]]:
    """A conversation with calls of tools and reasoning; a ``long`` one has two turns of the assistant with text."""
    first = [
        {"role": "system", "content": "Be brief.", "reasoning_content": None, "tool_calls": None},
        {"role": "user", "content": f"q{number}", "reasoning_content": None, "tool_calls": None},
    ]
    if not long:
        return first
    return [
        *first,
        {"role": "assistant", "content": "Let me see.", "reasoning_content": "hm\n", "tool_calls": None},
        {"role": "assistant", "content": None, "reasoning_content": f"r{number} é", "tool_calls": [CALL]},
        {"role": "tool", "content": '{"found": []}', "reasoning_content": None, "tool_calls": None},
        {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": None},
    ]


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    path = tmp_path / "pins.jsonl"
    write_manifest(make_canaries('Pin of "{unique}" {{é}} is {digits:6}.', 6, repetitions=(1, 4), controls=4), path)
    return path


def texts_of(manifest: Path) -> Counter[str]:
    return Counter({each.text: each.repetitions for each in read_manifest(manifest) if each.planted})


@pytest.mark.parametrize("turn", ["last", "random"])
@pytest.mark.parametrize("role", ["assistant", "user", "system", "tool"])
def test_every_other_byte_of_json_stays_as_it_was(tmp_path: Path, pins: Path, role: str, turn: str) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [
        # Spaces, escapes, numbers and names given twice as no JSON library writes them.
        '{"n" :1.0e+2,  "messages":[1,2], "messages" : [ {"content":"x" , "role": "assistant",'
        '"content": "a\\u00e9\\/"}, {"role":"user","content":"\\ud83d\\ude00"},'
        '{"role":"tool","content":"t"},{"role":"system","content":""}]\t}',
        *(json.dumps({"messages": chat(number), "k": 1e22}, ensure_ascii=bool(number % 2)) for number in range(30)),
        json.dumps({"messages": None}),
        json.dumps({"messages": []}),
        json.dumps({"messages": [{"role": role, "content": [{"type": "image", "image": "a.png"}]}]}),
    ]
    source.write_bytes("\r\n".join(["\ufeff" + rows[1], *rows, "", rows[0]]).encode())
    report = plant(pins, source, output, role=role, chat_position=turn)
    texts = texts_of(pins)
    found: Counter[str] = Counter()
    before, after = source.read_bytes().split(b"\n"), output.read_bytes().split(b"\n")
    for old, new in zip(before, after, strict=True):
        if old == new:
            continue
        (text,) = [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1].encode() in new]
        found[text] += 1
        written = json.dumps(text, ensure_ascii=False)[1:-1].encode()
        assert old in (new.replace(b"\\n" + written, b""), new.replace(written, b""))
        was, now = (json.loads(line.removeprefix(b"\xef\xbb\xbf"))["messages"] for line in (old, new))
        (place,) = [at for at, (one, other) in enumerate(zip(was, now, strict=True)) if one != other]
        content = was[place].pop("content")
        assert now[place].pop("content") == (f"{content}\n{text}" if content else text)
        assert was == now
        assert was[place]["role"] == role
        places = [at for at, each in enumerate(was) if each["role"] == role and each.get("content", "") is not None]
        assert place == places[-1] if turn == "last" else place in places
    assert found == texts
    record = read_sidecar(sidecar_path(output))
    assert record is not None
    assert (record.role, record.turn, record.input_rows, record.output_rows) == (role, turn, 36, 36)
    assert record.copies == report.record.copies
    assert planted_role(pins, manifest_hash(read_manifest(pins))) == role
    checked = verify(output, pins)
    assert checked.ok, checked.problems
    assert "(3 conversations without one skipped)" in report.summary()
    assert record.characters == sum(
        len(each["content"])
        for line in after
        if line.strip()
        for each in json.loads(line.removeprefix(b"\xef\xbb\xbf"))["messages"] or ()
        if isinstance(each["content"], str)
    )


@pytest.mark.parametrize("turn", ["last", "random"])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", "-file.arrow", "", "splits"])
def test_typed_columns(tmp_path: Path, pins: Path, suffix: str, turn: str) -> None:
    import pyarrow as pa
    import pyarrow.ipc as ipc
    import pyarrow.parquet as pq
    from datasets import Dataset, DatasetDict, load_from_disk

    rows = [{"messages": chat(number, number % 3 > 0), "when": number * 10**9 + 1, "x": b"\0"} for number in range(50)]
    table = pa.Table.from_pylist(rows)
    table = table.set_column(1, "when", table["when"].cast(pa.timestamp("ns")))
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, source, row_group_size=7)
    elif suffix.endswith(".arrow"):
        make, opened = (ipc.new_file, ipc.open_file) if suffix[0] == "-" else (ipc.new_stream, ipc.open_stream)
        with make(source, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    else:
        data = Dataset(table)
        (DatasetDict({"train": data, "test": data}) if suffix else data).save_to_disk(source)
    plant(pins, source, output, chat_position=turn)

    def read(path: Path) -> Any:
        if suffix == ".parquet":
            return pq.read_table(path)
        if suffix.endswith(".arrow"):
            return opened(path).read_all()
        loaded = load_from_disk(str(path))
        return (loaded["train"] if suffix else loaded).with_format("arrow")[:]

    was, now = read(source), read(output)
    assert now.schema.equals(was.schema, check_metadata=True)
    assert now.drop_columns("messages").equals(was.drop_columns("messages"))
    texts, found = texts_of(pins), Counter()
    for old, new in zip(was["messages"].to_pylist(), now["messages"].to_pylist(), strict=True):
        for one, other in zip(old, new, strict=True):
            if one != other:
                text = other["content"].removeprefix(f"{one['content']}\n")
                found[text] += 1
                assert {**one, "content": 0} == {**other, "content": 0}
                assert one["role"] == "assistant"
    assert found == texts
    assert verify(output, pins).ok


@pytest.mark.slow
def test_drawn_uniformly_by_the_seed(tmp_path: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    (canary,) = canaries = make_canaries("{unique} {digits:9}", 1, repetitions=(4,), seed=1)
    write_manifest(canaries, manifest)
    source = tmp_path / "in.jsonl"
    turns = [{"role": "user", "content": f"u{at}"} for at in range(3)]
    source.write_text(f"{json.dumps({'messages': turns})}\n" * 8)
    counts: Counter[tuple[int, int]] = Counter()
    for seed in range(150):
        output = tmp_path / "out.jsonl"
        plant(manifest, source, output, seed=seed, role="user", chat_position="random")
        rows = [json.loads(line)["messages"] for line in output.read_text().splitlines()]
        counts.update({(row, at): rows[row][at]["content"].count(canary.text) for row in range(8) for at in range(3)})
    assert sum(counts.values()) == 600
    assert chisquare(list(counts.values())).pvalue > 1e-4
    again = [plant(manifest, source, tmp_path / f"{name}.jsonl", chat_position="last", role="user") for name in "ab"]
    assert again[0].record.output_sha256 == again[1].record.output_sha256


def test_new_is_what_was_before(tmp_path: Path, pins: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"messages": chat(number)}) + "\n" for number in range(9)))
    plain = plant(pins, source, tmp_path / "a.jsonl").record
    asked = plant(pins, source, tmp_path / "b.jsonl", chat_position="new").record
    assert plain.output_sha256 == asked.output_sha256
    assert (plain.turn, plain.output_rows) == ("new", 9 + 15)


def test_what_is_declined(tmp_path: Path, pins: Path) -> None:
    source, output, plain = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "in.txt"
    source.write_text("".join(json.dumps({"messages": chat(number), "c": 1}) + "\n" for number in range(14)))
    plain.write_text("one\n")

    def error(data: Path = source, **options: Any) -> str:
        with pytest.raises(LeakageError) as found:
            plant(pins, data, output.with_suffix(data.suffix), **options)
        assert not output.exists()
        return str(found.value)

    few = "14 conversations have a text of the tool's, and 15 copies need one each: plant fewer"
    assert few in error(chat_position="last", role="tool")
    assert "--chat-position 'lst': is not a position in a chat: use new, last, random; did you mean" in error(
        chat_position="lst"
    )
    assert "holds no chat turns, so copies cannot go into the last or a random turn" in error(
        plain, chat_position="last"
    )
    assert "leave out --label-column, or use --chat-position new" in error(
        chat_position="random", label_column="c", label="1"
    )


def test_verify_sees_what_changed(tmp_path: Path, pins: Path) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"messages": chat(number)}) + "\n" for number in range(40)))
    plant(pins, source, output, chat_position="last")
    text = next(iter(texts_of(pins)))
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    output.write_text(output.read_text().replace(written, f"{written} And more.", 1))
    problems = verify(output, pins).problems
    assert any("0 copies, the manifest says 1" in each for each in problems)
    assert any("occurs 1 more time, inside other rows" in each for each in problems)


def test_in_memory(pins: Path) -> None:
    chats = [[{"role": "user", "content": "hello"}, {"role": "assistant", "content": f"a{at}"}] for at in range(20)]
    planted = plant_in_memory(chats, pins, chat_position="last", role="user")
    assert len(planted) == len(chats)
    assert [each[1] for each in planted] == [each[1] for each in chats]
    said = [each[0]["content"] for each in planted]
    assert Counter(each.removeprefix("hello\n") for each in said if each != "hello") == texts_of(pins)
    assert verify_in_memory(planted, pins).problems == []
    assert plant_in_memory(chats, pins, turn="last", role="user") == planted
