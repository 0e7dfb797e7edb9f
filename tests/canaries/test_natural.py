"""Secrets of a corpus become natural canaries: template, filling, repetitions, controls, and nothing shown."""

from __future__ import annotations

import json
import re
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.canaries import Canary, read_manifest, verify
from leakage_tasks.canaries.detect import DETECTORS, GROUPS, LONGEST, find_secrets
from leakage_tasks.canaries.generate import nonce_of
from leakage_tasks.canaries.kinds.names import NAMES
from leakage_tasks.canaries.natural import (
    CONTEXT,
    MOST_CONTEXT,
    Passage,
    _running,
    corpus_passages,
    holding_secrets,
    natural_canaries,
)
from leakage_tasks.core.errors import OptionError
from leakage_tasks.data.lines import BLOCK
from leakage_tasks.research.victims.mails import invented_mails
from tests.conftest import Leakage, Ran, Refused

CARD = "4111 1111 1111 1111"
SENDERS = invented_mails(2, 60)


def found(text: str, **options: object) -> list[Canary]:
    return natural_canaries([Passage(text)], **options)  # type: ignore[arg-type]


def templates(text: str, **options: object) -> list[str]:
    return [canary.template for canary in found(text, **options)]


def test_the_format_stays_and_digits_become_slots() -> None:
    text = f"Card {CARD}.\nSSN: 123-45-6788!\nCall +1 (212) 555-0123 or a.b@example.org, ok?"
    card, ssn, phone, address = found(text)
    assert card.template == "Card {digits:4} {digits:4} {digits:4} {digits:4}"
    assert "".join(card.secret) == CARD.replace(" ", "")
    assert ssn.template == "SSN: {digits:3}-{digits:2}-{digits:4}"
    assert phone.template == "Call +1 ({digits:3}) {digits:3}-{digits:4}"
    assert address.template == "or {local:3}@example.org"
    assert [canary.space.size for canary in (card, ssn, phone)] == [10**16, 10**9, 10**10]
    assert address.space.size == 40**3
    ids = ["natural-0001-ccn", "natural-0002-ssn", "natural-0003-phone", "natural-0004-email"]
    assert [canary.id for canary in (card, ssn, phone, address)] == ids
    assert all(canary.text in text for canary in (card, ssn, phone, address))


def test_capitals_are_in_the_space_where_an_address_has_some() -> None:
    (canary,) = found("Jane@example.org")
    assert canary.template == "{local_capitals:4}@example.org"
    assert canary.space.size == 66**4


def test_braces_of_the_context_are_text() -> None:
    (canary,) = found(f'{{"card": "{CARD}"}}')
    assert canary.template.startswith('{{"card": "{digits:4}')
    assert canary.text == f'{{"card": "{CARD}'


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        ("first line\nmy card is ", 40, "my card is "),
        ("first line\nit is my card is ", 12, "my card is "),
        ("it is my card is ", 11, "my card is "),
        ("it is my card is ", 10, "card is "),
        ("it is my card is ", 4, "is "),
        ("it is my card is ", 2, "s "),
        ("dear all,\n\n  ", 40, "dear all,\n\n  "),
        ("one\ntwo\n", 40, "two\n"),
        ("anything ", 0, ""),
        ("请把钱打到这张卡上谢谢卡号是", 3, "卡号是"),
        ("bad \ud800 half: ", 40, " half: "),
    ],
)
def test_context(text: str, context: int, expected: str) -> None:
    (template,) = templates(f"{text}{CARD}", context=context)
    assert template.partition("{")[0] == expected


def test_one_secret_is_one_canary_whatever_its_form() -> None:
    text = f"a {CARD}\nb {CARD.replace(' ', '-')}\nb {CARD.replace(' ', '-')}\nc 5555555555554444\n"
    first, second = found(text)
    assert (first.repetitions, second.repetitions) == (3, 1)
    assert first.template == "b {digits:4}-{digits:4}-{digits:4}-{digits:4}"
    assert second.id == "natural-0002-ccn"


def test_the_longest_context_is_documented(leakage: Leakage) -> None:
    _, out, _ = leakage("canaries", "--help")
    assert f"that its template begins with, up to {MOST_CONTEXT} (default: {CONTEXT})" in " ".join(out.split())
    page = (Path(__file__).parents[2] / "docs" / "natural_secrets.md").read_text(encoding="utf-8")
    assert f"`--context` characters ({CONTEXT}; at most {MOST_CONTEXT})" in page


def test_among_equal_contexts_the_first_counts() -> None:
    assert templates(f"a {CARD}\nb {CARD}")[0].startswith("a ")


def test_kinds_can_be_chosen() -> None:
    text = f"{CARD}, 123-45-6788"
    assert [canary.id for canary in found(text, detect=["ssn"])] == ["natural-0001-ssn"]


def test_controls_are_twins_with_other_secrets() -> None:
    text = f"card {CARD} and call (212) 555-0123"
    canaries = found(text, controls=3, seed=5, id_prefix="x-")
    assert [canary.id for canary in canaries[:4]] == ["x-natural-0001-ccn"] + [
        f"x-natural-0001-control-{place}-ccn" for place in range(3)
    ]
    for family in (canaries[:4], canaries[4:]):
        own, *twins = family
        assert {twin.template for twin in twins} == {own.template}
        assert len({twin.secret for twin in family}) == 4
        assert all((twin.kind, twin.planted, twin.repetitions) == ("natural", False, 0) for twin in twins)
    assert canaries == found(text, controls=3, seed=5, id_prefix="x-")
    assert canaries != found(text, controls=3, seed=6, id_prefix="x-")
    assert [each for each in canaries if "control-2" not in each.id] == found(text, controls=2, seed=5, id_prefix="x-")


def test_a_control_is_no_secret_that_was_found() -> None:
    text = " ".join(f"{letter}@example.org" for letter in "abcdefghijklmnopqrstuvwxyz012345678")
    canaries = found(text, controls=0)
    assert len(canaries) == 35
    with pytest.raises(OptionError, match="--controls: natural-0.* has 40 fillings, too few"):
        found(text, controls=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"context": -1}, "--context is -1"), ({"context": 400}, "--context is 400"), ({"controls": -1}, "--controls is")],
)
def test_numbers_that_cannot_be(options: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        found(CARD, **options)


def test_without_a_secret_there_is_no_canary() -> None:
    with pytest.raises(OptionError, match="no secret of kind ccn, ssn was found"):
        found("call (212) 555-0123", detect=["ccn", "ssn"])


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_every_secret_of_invented_mails_is_found_and_nothing_else(sender) -> None:
    true = {(told.kind, told.normal): told.times for told in sender.secrets}
    assert Counter((each.kind, each.normal) for each in find_secrets(sender.text)) == true
    canaries = found(sender.text)
    assert Counter(canary.id.rpartition("-")[2] for canary in canaries) == Counter(kind for kind, _ in true)
    assert sorted(canary.repetitions for canary in canaries) == sorted(true.values())
    assert all(canary.text in sender.text for canary in canaries)


@settings(max_examples=30)
@given(st.lists(st.integers(30, 900), min_size=1, max_size=12), st.integers(0, 9000))
def test_blocks_may_end_anywhere(sizes: list[int], offset: int) -> None:
    text = SENDERS[0].text[offset : offset + 4000]
    blocks, place = [], 0
    while place < len(text):
        size = sizes[len(blocks) % len(sizes)]
        blocks.append(text[place : place + size])
        place += size
    try:
        whole = found(text)
    except OptionError:
        return
    assert natural_canaries(_running(blocks)) == whole


def test_a_secret_at_the_end_of_a_block_is_found_once(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    before = "word " * ((BLOCK - 10) // 5)
    path.write_text(before + CARD + " and more " * LONGEST)
    (canary,) = natural_canaries(corpus_passages(path))
    assert (canary.repetitions, canary.template.partition("{")[0]) == (1, "word " * 8)


def write_rows(folder: Path, rows: list[str]) -> dict[str, Path]:
    """The same rows in every format."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    paths = {name: folder / f"mail.{name}" for name in ("txt", "jsonl", "csv", "parquet")} | {"saved": folder / "saved"}
    paths["txt"].write_text("\n".join(rows))
    paths["jsonl"].write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    paths["csv"].write_text("text\n" + "".join(f'"{row}"\n' for row in rows))
    pq.write_table(pa.table({"text": rows}), paths["parquet"])
    Dataset.from_dict({"text": rows}).save_to_disk(paths["saved"])
    return paths


def test_every_format_gives_the_same(tmp_path: Path) -> None:
    paths = write_rows(tmp_path, [f"the card is {CARD}", "nothing", "SSN 123-45-6788", f"once more {CARD}"])
    by_format = {name: natural_canaries(corpus_passages(path)) for name, path in paths.items()}
    assert len(by_format["txt"]) == 2
    assert all(canaries == by_format["txt"] for canaries in by_format.values())


def test_a_folder_is_read_by_name(tmp_path: Path) -> None:
    for name, card in (("b.txt", "5555555555554444"), ("a.TXT", CARD), ("c.md", "378282246310005")):
        (tmp_path / name).write_text(f"card {card}")
    first, second = natural_canaries(corpus_passages(tmp_path))
    assert ("".join(first.secret)[0], "".join(second.secret)[0]) == ("4", "5")


def test_the_command_writes_a_private_manifest_and_prints_counts(tmp_path: Path, leakage: Leakage) -> None:
    source, path = tmp_path / "mail.txt", tmp_path / "found.jsonl"
    source.write_text(f"the card is {CARD}\nSSN 123-45-6788\nagain {CARD}\n")
    path.write_text("older, for everyone to read")
    options = ("--detect", "ccn,ssn", "--controls", 2, "--seed", 3, "--context", 9)
    code, out, err = leakage("canaries", "--from-text", source, *options, "-o", path)
    assert (code, err) == (0, "")
    assert out == (
        f"{path}: 2 natural secrets (1 ccn, 1 ssn) that occur 3 times in all, 4 controls; rules such as check "
        "digits take at least 3.3 bits of ccn; only its owner may read the file, which holds them\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    made = read_manifest(path)
    kinds = ["ccn", "ssn"]
    named = {"seed": 3, "id_prefix": f"{nonce_of(3)}-"}
    expected = natural_canaries(corpus_passages(source), detect=kinds, controls=2, context=9, **named)
    assert made == [replace(canary, seed=3, salt=made[0].salt) for canary in expected]
    assert verify(source, path).ok


def test_reveal_prints_the_secrets_and_no_control_character(tmp_path: Path, ran: Ran) -> None:
    (tmp_path / "mail.txt").write_text(f"\x1b[31mthe card is {CARD}\n")
    out, _ = ran("canaries", "--from-text", tmp_path / "mail.txt", "--reveal", "-o", tmp_path / "c.jsonl")
    nonce = nonce_of(read_manifest(tmp_path / "c.jsonl")[0].seed or 0)
    assert f'{nonce}-natural-0001-ccn (1 time): "\\u001b[31mthe card is {CARD}"' in out.splitlines()
    assert "\x1b" not in out


def test_the_help_names_every_kind(leakage: Leakage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shown = " ".join(re.findall(r"\w+", leakage("canaries", "--help")[1]))
    assert " ".join(DETECTORS) in shown
    assert all(f" {name} " in shown for name in (*GROUPS, *NAMES))


@pytest.mark.parametrize("folder", [False, True])
def test_the_corpus_is_not_overwritten(tmp_path: Path, leakage: Leakage, folder: bool) -> None:
    source = tmp_path / "mail.txt"
    source.write_text(CARD)
    code, _, err = leakage("canaries", "--from-text", tmp_path if folder else source, "-o", source)
    assert (code, source.read_text()) == (2, CARD)
    assert "is the text that --from-text reads" in err


def test_the_first_row_of_a_file_without_a_header_is_not_shown(tmp_path: Path, refused: Refused) -> None:
    source = tmp_path / "mail.csv"
    source.write_text(f"ottoline,{CARD}\nquux,123-45-6788\n")
    err = refused("canaries", "--from-text", source, "-o", tmp_path / "found.jsonl")
    assert "mail.csv: no column 'text' in the first line" in err
    assert "ottoline" not in err
    assert CARD not in err


SSN, CARD_2 = "219-09-4321", "5105 1051 0510 5100"


@pytest.mark.parametrize("detect", [["ccn"], ["ccn", "ssn"]])
def test_no_template_shows_the_secret_before_it(detect: list[str]) -> None:
    text = f"her SSN {SSN} pays with {CARD} or with {CARD_2}\n"
    canaries = natural_canaries([Passage(text)], detect=detect)
    assert [canary.template for canary in canaries][-2:] == [
        "pays with {digits:4} {digits:4} {digits:4} {digits:4}",
        "or with {digits:4} {digits:4} {digits:4} {digits:4}",
    ]
    assert holding_secrets(canaries) == []


def test_a_secret_that_comes_twice_in_a_row_is_not_in_its_own_template() -> None:
    text = "".join(f"write to ann@example.org, ann@example.org {word}\n" for word in ("now", "or", "not"))
    (canary,) = natural_canaries([Passage(text)], detect=["email"])
    assert "ann" not in canary.template


def test_templates_of_a_manifest_that_show_another_secret_are_named() -> None:
    one = Canary("one", "card {digits:4}", tuple("4929"), kind="natural")
    other = Canary("other", "card 4929, code {digits:2}", tuple("17"), kind="natural")
    assert holding_secrets([one, other]) == ["other"]


@pytest.mark.parametrize("order", ["abc", "bac", "cab"])
def test_the_secrets_of_all_canaries_of_one_template_are_looked_for(order: str) -> None:
    canaries = {
        "a": Canary("a", "call {digits:7}", tuple("1234567"), kind="natural"),
        "b": Canary("b", "call {digits:7}", tuple("7654321"), kind="natural"),
        "c": Canary("c", "not 1234567 but {digits:5}", tuple("12345"), kind="natural"),
    }
    assert holding_secrets([canaries[name] for name in order]) == ["c"]


MD5, COMMIT = "5eb63bbbe01eeed093cb22bb8f5acdc3", "83db48f86b1de1bd23fa63c2e2d1ab3ad3f3ff5c"
ETH, CHECKED = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def test_forms_of_an_identifier_in_other_case_or_cut_short_are_counted_together() -> None:
    text = f"a {MD5}\nb {MD5.upper()}\nb {MD5.upper()}\ncommit {COMMIT}\nsum {COMMIT}\ncommit {COMMIT[:9]}\n"
    digest, commit = found(text, detect=["identifiers"])
    assert (digest.repetitions, digest.template) == (3, "b {hex_capitals:32}")
    assert (commit.repetitions, commit.template, commit.id) == (3, "commit {hex:40}", "natural-0002-git")
    assert [canary.repetitions for canary in found(text, detect=["git"])] == [3]


def test_a_form_without_a_space_counts_as_an_occurrence_only() -> None:
    (canary,) = found(f"pay {CHECKED}\nto {ETH}\n{CHECKED}\n", detect=["eth_address"])
    assert (canary.repetitions, canary.template) == (3, "to 0x{hex:40}")


def test_what_has_no_known_space_is_counted_in_one_warning() -> None:
    times = ["c232ab00-9414-11ec-b3c8-9f6bdeced846", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"]
    text = f"{MD5} at {times[0]}, {times[1]} and {times[1]} from {CHECKED}"
    expected = (
        "left out 3 secrets whose space is not known: 2 uuid made from the time, 1 eth_address with a checksum in its "
        r"capitals\Z"
    )
    with pytest.warns(UserWarning, match=expected) as caught:
        assert len(found(text)) == 1
    assert len(caught) == 1


def test_controls_are_valid_secrets_of_their_kind() -> None:
    text = f"card {CARD}, SSN 123-45-6788, call (212) 555-0123, a.b@example.org, {MD5}"
    canaries = found(text, controls=20)
    for canary in canaries:
        kind = canary.id.rpartition("-")[2]
        # The context of the later ones is cut at the secret before.
        assert [each.kind for each in find_secrets(f"call {canary.text}")] == [kind]
    assert {canary.id.rpartition("-")[2] for canary in canaries if canary.uniform} == {"md5"}
    assert {canary.uniform for canary in canaries} == {True, False}
