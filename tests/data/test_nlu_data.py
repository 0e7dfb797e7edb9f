"""NLU data as a data set like any other: planted into, verified, counted and sanitized, in both layouts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.canaries import Canary, class_counts, make_canaries, nlu_canaries, plant, verify, write_manifest
from leakage_tasks.canaries.manifest import read_manifest
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.utterances import FILES, Utterance, read_utterances, write_folder

ROWS = [
    Utterance(("play", "old", "songs"), ("O", "B-genre", "I-genre"), "PlayMusic"),
    Utterance(("rain", "today"), ("O", "B-day"), "GetWeather"),
    Utterance(("snow", "in", "oslo"), ("O", "O", "B-city"), "GetWeather"),
]
KINDS = ["folder", "conll"]
pytestmark = pytest.mark.filterwarnings("ignore:the template has no .unique.")


def render(row: Utterance, newline: str = "\n") -> str:
    lines = [f"# intent: {row.intent}", *(f"{word} {tag}" for word, tag in zip(row.words, row.tags, strict=True))]
    return "".join(line + newline for line in lines)


def save(kind: str, path: Path, rows: list[Utterance] = ROWS) -> Path:
    """``rows`` as NLU data of a kind at ``path``, which gets the suffix of the kind."""
    if kind == "folder":
        write_folder(rows, path)
        return path
    path = path.with_suffix(".conll")
    path.write_text("\n".join(render(row) for row in rows), encoding="utf-8")
    return path


def utterance(canary: Canary) -> Utterance:
    return Utterance(tuple(canary.text.split(" ")), canary.tags or (), canary.label or "")


def without(rows: list[Utterance], planted: list[Canary]) -> list[Utterance]:
    texts = {canary.text for canary in planted}
    return [row for row in rows if row.text not in texts]


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    """Two canaries of 3 and 5 copies and a control."""
    path = tmp_path / "pins.jsonl"
    write_manifest(nlu_canaries("pin", 2, repetitions=(3, 5), controls=1), path)
    return path


@pytest.mark.parametrize("options", [{}, {"label_column": "label"}])
@pytest.mark.parametrize("kind", KINDS)
def test_canaries_get_intent_and_tags_and_the_rows_stay(
    tmp_path: Path, pins: Path, kind: str, options: dict[str, str]
) -> None:
    source = save(kind, tmp_path / "in")
    report = plant(pins, source, tmp_path / ("out" + source.suffix), **options)
    after, canaries = read_utterances(report.output), read_manifest(pins)
    assert without(after, canaries) == ROWS
    planted = [canary for canary in canaries if canary.planted]
    assert Counter(after) == Counter(ROWS) + Counter({utterance(each): each.repetitions for each in planted})
    assert (report.record.label_column, report.labels_unused) == ("label", False)
    assert verify(report.output, pins).ok


words = st.text("ab#=é", min_size=1, max_size=3).filter(lambda word: word != "#")
tagged = st.tuples(words, st.sampled_from(["O", "B-x", "I-x"]))
row_lists = st.lists(
    st.builds(
        lambda pairs, intent: Utterance(*zip(*pairs, strict=True), intent),
        st.lists(tagged, min_size=1, max_size=4),
        st.sampled_from(["A", "B c", "#"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60)
@given(
    rows=row_lists,
    newline=st.sampled_from(["\n", "\r\n"]),
    gap=st.sampled_from(["", " ", "\t"]),
    end=st.integers(0, 2),
    bom=st.booleans(),
    kind=st.sampled_from(KINDS),
    repetitions=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_planting_adds_the_copies_and_leaves_every_byte(
    rows: list[Utterance], newline: str, gap: str, end: int, bom: bool, kind: str, repetitions: int, seed: int
) -> None:
    (canary,) = nlu_canaries("color", 1, 2, repetitions=(repetitions,))
    with TemporaryDirectory() as folder:
        manifest, source = Path(folder) / "m.jsonl", save(kind, Path(folder) / "in", rows)
        write_manifest([canary], manifest)
        for path in source.iterdir() if kind == "folder" else [source]:
            text = path.read_text(encoding="utf-8").rstrip("\n")
            text = "\ufeff" * bom + text.replace("\n\n", f"\n{gap}\n") + "\n" * (end if kind == "conll" else end % 2)
            path.write_bytes(text.replace("\n", newline).encode())
        assert read_utterances(source) == rows
        output = Path(folder) / ("out" + source.suffix)
        plant(manifest, source, output, seed=seed)
        after = read_utterances(output)
        assert without(after, [canary]) == rows
        assert Counter(after)[utterance(canary)] == repetitions
        assert verify(output, manifest).ok
        assert untouched(source, output, canary, newline)


def untouched(source: Path, output: Path, canary: Canary, newline: str) -> bool:
    """Whether ``output`` without the canary's copies is ``source``, byte for byte."""
    if source.is_file():
        row, between = utterance(canary), (newline * 2).encode()
        pairs = zip(row.words, row.tags, strict=True)
        lines = [f"# intent = {row.intent}", *(f"{word}\t{tag}" for word, tag in pairs)]
        block = newline.join(lines).encode()
        return output.read_bytes().replace(block + between, b"").replace(between + block, b"") == source.read_bytes()
    own = [row == utterance(canary) for row in read_utterances(output)]
    for name in FILES:
        before, after = ((folder / name).read_bytes().decode("utf-8-sig") for folder in (source, output))
        between = newline if "\n" in before else "\n"
        lines = after.removesuffix(between).split(between)
        kept = between.join(line for line, is_copy in zip(lines, own, strict=True) if not is_copy)
        if kept + between * after.endswith(between) != before:
            return False
    return True


@pytest.mark.parametrize("tail", ["", "\n", "\n\n", "\r\n", "\n\r", "\n  ", "\n# the end", "\n# the end\n\n"])
def test_a_block_at_the_end_of_a_conll_file_stands_apart(tmp_path: Path, tail: str) -> None:
    source, output, manifest = tmp_path / "in.conll", tmp_path / "out.conll", tmp_path / "m.jsonl"
    source.write_bytes(b"# intent = A\na O" + tail.encode())
    write_manifest(nlu_canaries("pin", 1, repetitions=(40,)), manifest)
    plant(manifest, source, output)
    assert len(read_utterances(output)) == 41
    assert source.read_bytes().strip() in output.read_bytes()


def test_a_copy_of_a_folder_can_be_replaced_and_nothing_else(tmp_path: Path, pins: Path) -> None:
    source, output = save("folder", tmp_path / "in"), tmp_path / "out"
    (source / "notes.txt").write_text("mine")
    source.chmod(0o555)
    plant(pins, source, output)
    plant(pins, source, output, seed=1)
    assert sorted(path.name for path in output.iterdir()) == ["label", "seq.in", "seq.out"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "out.leakage.json", "pins.jsonl"]
    (output / "notes.txt").write_text("mine")
    with pytest.raises(LeakageError, match=r"out: exists and holds more than seq.in, seq.out and label: choose"):
        plant(pins, source, output)


def test_the_folder_one_stands_in(tmp_path: Path, pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = save("folder", tmp_path / "in")
    monkeypatch.chdir(source)
    assert plant(pins, Path("."), Path("../out")).record.input == "in"
    monkeypatch.chdir(tmp_path / "out")
    assert verify(Path("."), pins).recorded
    with pytest.raises(LeakageError, match="would overwrite the input"):
        plant(pins, source, source)


def attempt(manifest: Path, source: Path, **options: Any) -> str:
    output = source.with_name("out" + source.suffix)
    with pytest.raises(LeakageError) as error:
        plant(manifest, source, output, **options)
    assert not output.exists()
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None}, "canary-0 has no label, the intent that each row of NLU data has: name one with --label"),
        ({"tags": None}, "canary-0 has no tags, but NLU data needs one tag per word: make canaries with"),
        ({"tags": ("O", "B-canary")}, "canary-0 has 2 tags for 8 words: give one tag per word with --tags"),
        ({"tags": ("O",) * 7 + ("X",)}, "canary-0: tag 'X' is outside the BIO scheme"),
        ({"tags": ("O",) * 7 + ("B-x y",)}, "canary-0: tag 'B-x y' is outside the BIO scheme"),
        ({"label": "A\nB"}, r"canary-0: label 'A\nB' is empty, or has a line break or outer white space"),
        ({"label": " "}, "canary-0: label ' ' is empty"),
        ({"template": "my pin  code is {digit_words:4}"}, "canary-0: NLU data separates words by single spaces"),
        ({"template": "my pin code is\n{digit_words:4}"}, "canary-0: NLU data separates words by single spaces"),
    ],
)
def test_canaries_that_do_not_fit(tmp_path: Path, kind: str, changes: dict[str, Any], message: str) -> None:
    manifest = tmp_path / "m.jsonl"
    write_manifest([replace(nlu_canaries("pin")[0], **changes)], manifest)
    found = attempt(manifest, save(kind, tmp_path / "in"))
    assert message in found
    assert "my pin" not in found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_column": "body"}, "no column 'body' (NLU data has 'text' and 'label' alone): leave out --text-column"),
        (
            {"label_column": "tags"},
            "no column 'tags' (NLU data has 'text' and 'label' alone): leave out --label-column",
        ),
        ({"source_column": "label"}, "no column 'label' (NLU data has"),
    ],
)
def test_other_columns(tmp_path: Path, pins: Path, kind: str, options: dict[str, str], message: str) -> None:
    assert message in attempt(pins, save(kind, tmp_path / "in"), **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("label", "chosen"), [("rarest", "PlayMusic"), ("most-popular", "GetWeather"), ("SetPin", "SetPin")]
)
def test_canaries_without_an_intent_get_one(tmp_path: Path, kind: str, label: str, chosen: str) -> None:
    manifest, source = tmp_path / "m.jsonl", save(kind, tmp_path / "in")
    write_manifest(make_canaries("pin {digits:4}", 1, tags=("O", "B-pin")), manifest)
    report = plant(manifest, source, tmp_path / ("out" + source.suffix), label=label)
    assert f"; 1 canary without a label got {chosen!r}" in report.summary()
    assert Counter(row.intent for row in read_utterances(report.output)) == (
        Counter(row.intent for row in ROWS) + Counter([chosen])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_classes_are_counted(tmp_path: Path, kind: str) -> None:
    assert class_counts(save(kind, tmp_path / "in"), "label") == {"GetWeather": 2, "PlayMusic": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropped", [[0], [1], [2], [0, 2]])
def test_rows_are_dropped(tmp_path: Path, kind: str, dropped: list[int]) -> None:
    source, wanted = save(kind, tmp_path / "in"), Columns()
    kind_of_data = format_of(source)
    layout = kind_of_data.survey(source, wanted)
    assert list(kind_of_data.row_texts(source, layout, wanted)) == [row.text for row in ROWS]
    output = tmp_path / ("out" + source.suffix)
    kind_of_data.write_without(source, output, layout, wanted, dropped)
    assert read_utterances(output) == [row for place, row in enumerate(ROWS) if place not in dropped]


def test_the_byte_order_marks_of_a_folder_stay_where_its_first_row_goes(tmp_path: Path) -> None:
    source, output, wanted = save("folder", tmp_path / "in"), tmp_path / "out", Columns()
    for name in ("seq.in", "label"):
        (source / name).write_bytes(b"\xef\xbb\xbf" + (source / name).read_bytes())
    folder = format_of(source)
    folder.write_without(source, output, folder.survey(source, wanted), wanted, [0])
    assert [(output / name).read_bytes() for name in FILES] == [
        b"\xef\xbb\xbfrain today\nsnow in oslo\n",
        b"O B-day\nO O B-city\n",
        b"\xef\xbb\xbfGetWeather\nGetWeather\n",
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_comment_of_no_utterance_stays_where_the_next_one_goes(tmp_path: Path, newline: str) -> None:
    source, output, wanted = tmp_path / "in.conll", tmp_path / "out.conll", Columns()
    own = [f"# its own{newline}{render(row, newline)}{newline}" for row in ROWS]
    file, part = f"# of the file{newline}{newline}", f"# of a part{newline}# too{newline}{newline}{newline}"
    source.write_bytes("".join([file, own[0], own[1], part, own[2]]).encode())
    conll = format_of(source)
    conll.write_without(source, output, conll.survey(source, wanted), wanted, [0, 2])
    assert output.read_bytes().decode() == file + own[1] + part


def test_a_folder_of_another_kind_says_what_is_expected(tmp_path: Path, pins: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "picture.png").write_bytes(b"")
    with pytest.raises(LeakageError, match=r"\.txt, a folder saved by 'datasets' or a folder with seq\.in, "):
        plant(pins, other, tmp_path / "out")
    source = save("folder", tmp_path / "in")
    (source / "label").unlink()
    assert "in: has no label: NLU data needs seq.in, seq.out, label" in attempt(pins, source)
