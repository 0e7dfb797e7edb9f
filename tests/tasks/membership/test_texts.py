"""The texts of a run: sampling, clusters, parts, and texts of both classes that overlap."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.canaries.coins import flipped
from leakage_tasks.core.errors import LeakageError, MissingOption, OptionError
from leakage_tasks.tasks.membership.options import membership_options, read_membership_options

WORDS = [f"word{number}" for number in range(18)]
LONG = " ".join(f"{word}{number}" for number in range(2) for word in WORDS)


@pytest.fixture
def write(tmp_path):
    def written(name, texts):
        rows = [json.dumps(row if isinstance(row, dict) else {"text": row}) for row in texts]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
        return str(tmp_path / name)

    return written


def read(write, members, nonmembers, **options):
    given = {"members": write("m.jsonl", members), "nonmembers": write("n.jsonl", nonmembers), **options}
    return membership_options(given).tested()


def numbered(word, number):
    return [f"{word} {place}" for place in range(number)]


def test_a_larger_sample_holds_a_smaller_one_and_a_seed_gives_one_sample(write):
    texts = numbered("in", 50), numbered("out", 40)
    few, more = (read(write, *texts, documents=number, seed=3) for number in (10, 20))
    assert few.available == (50, 40)
    assert {text.text for text in few.texts} <= {text.text for text in more.texts}
    assert [text.member for text in few.texts] == [True, False] * 10
    again = read(write, *texts, documents=10, seed=3)
    assert again == few
    assert read(write, *texts, documents=10, seed=4).digest != few.digest
    for text in few.texts:
        number = text.number if text.member else -1 - text.number
        assert text.text == (texts[0] if text.member else texts[1])[number]


@pytest.mark.parametrize(("ours", "theirs"), [([1, 2], [2, 3]), ([1, 1, 2], [2, *range(3, 9)]), ([1, 2], [1, 2])])
def test_each_class_has_texts_in_both_parts(write, ours, theirs):
    rows = [
        [{"text": f"{word} {place}", "by": cluster} for place, cluster in enumerate(clusters)]
        for word, clusters in (("in", ours), ("out", theirs))
    ]
    texts = read(write, *rows, cluster="by").texts
    assert {(text.member, text.chooses) for text in texts} == {(m, c) for m in (True, False) for c in (True, False)}


def test_half_of_the_clusters_of_each_kind_choose(write):
    def rows(word, clusters):
        return [{"text": f"{word} {place}", "by": cluster} for place, cluster in enumerate(clusters)]

    tested = read(write, rows("in", [1, 1, 2, "2", 3, 4]), rows("out", [9, 9, 8, 4]), cluster="by")
    assert tested.clusters == 7
    parts = {}
    for text in tested.texts:
        parts.setdefault(text.cluster, set()).add((text.member, text.chooses))
    assert all(len({chooses for _, chooses in classes}) == 1 for classes in parts.values())
    for kind, number in (({True}, 4), ({False}, 2), ({True, False}, 1)):
        those = [classes for classes in parts.values() if {member for member, _ in classes} == kind]
        assert len(those) == number
        assert sum(any(chooses for _, chooses in classes) for classes in those) == number // 2


def test_the_shots_of_the_context_are_left_out_of_the_test(write):
    tested = read(write, numbered("in", 6), numbered("out", 9), shots=4, documents=5)
    assert len(tested.context) == 4
    others = [text.text for text in tested.texts if not text.member]
    assert len(others) == 5
    assert not set(others) & set(tested.context)


@pytest.mark.parametrize(
    ("members", "nonmembers", "options", "message"),
    [
        (["a", "b"], ["c", "B  "], {}, r"n.jsonl: text 1 \(from 0\) equals text 1 of members="),
        (["a", LONG], [f"so {LONG[:200]} end", "b"], {}, r"n.jsonl: text 0 \(from 0\) shares 25 words in a row with"),
        (["a", "b"], ["c"], {}, "nonmembers=.*: 1 of at least 2 texts: .*each .txt file, is one text"),
        (["a", "  "], ["c", "d"], {}, "members=.*: 1 of at least 2 texts: give one"),
        (["a", "b"], ["c", "d"], {"cluster": "by"}, "m.jsonl: has no field 'by' .it has text.: name another"),
        ([{"text": "a", "by": 1}, {"text": "b", "by": None}], ["c"], {"cluster": "by"}, "text 1 .* has no 'by': give"),
        (
            [{"text": "a", "by": 1}] * 2,
            [{"text": "c", "by": 2}] * 2,
            {"cluster": "by"},
            "1 of at least 2 clusters: give one",
        ),
        (["a", "b"], ["c", "d"], {"shots": 3}, "shots=3: the context of recall takes that many of 2 non-members"),
        (["a", "b"], ["c", "d"], {"text_column": "body"}, "no column 'body' .it has text.: name one with --metadata"),
    ],
)
def test_unusable_texts_are_one_clear_line(write, members, nonmembers, options, message):
    with pytest.raises(OptionError, match=message):
        read(write, members, nonmembers, **options)


def test_texts_that_share_fewer_words_are_taken(write):
    words = LONG.split()
    assert len(read(write, [" ".join(words[:24]), "b"], [" ".join([*words[:24], "other"]), "c"]).texts) == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, MissingOption, "members is missing"),
        ({"members": "m"}, MissingOption, "nonmembers is missing"),
        ({"canaries": "c", "membership": {"canaries": "c"}, "members": "m"}, OptionError, "canaries and members both"),
        ({"canaries": "c", "cluster": "by"}, OptionError, "cluster=by has no use with canaries="),
        (
            {"members": "m", "nonmembers": "n", "attacks": "loss", "reference": "x"},
            OptionError,
            "without the attack ratio",
        ),
        ({"members": "m", "nonmembers": "n", "reference": "a::b"}, OptionError, "reference=a::b: name each model once"),
        ({"members": "m", "nonmembers": "n", "k": 101}, OptionError, "k=101 must be 100 or less"),
        ({"members": "missing.jsonl", "nonmembers": "n.jsonl"}, OptionError, "missing.jsonl"),
    ],
)
def test_wrong_options_are_one_clear_line(options, error, message):
    with pytest.raises(error, match=message):
        read_membership_options(options).tested()


def test_too_few_canaries_get_no_hint_on_files_of_text(tmp_path):
    write_manifest([Canary("a", "call {digits:3}", tuple("123"))], tmp_path / "c.jsonl")
    with pytest.raises(OptionError, match="1 of at least 2 texts: give one to choose the attack on and one to report$"):
        read_membership_options({"canaries": str(tmp_path / "c.jsonl")}).tested()


def test_natural_secrets_are_not_scored(tmp_path):
    common = {"kind": "natural", "template": "call {digits:3}"}
    seen = [Canary(id=f"n{n}", secret=("1", "2", str(n)), **common) for n in range(2)]
    unseen = [Canary(id=f"u{n}", secret=("3", "2", str(n)), planted=False, repetitions=0, **common) for n in range(2)]
    write_manifest([*seen, *unseen], tmp_path / "c.jsonl")
    with pytest.raises(OptionError, match="holds natural secrets, and their scores would confirm guesses"):
        membership_options({"canaries": str(tmp_path / "c.jsonl")}).tested()


def test_a_coin_that_was_changed_is_an_error(tmp_path):
    canaries = [replace(canary, seed=0) for canary in make_canaries("pin {unique} {digits:3}", 8, controls=2)]
    write_manifest(flipped(canaries, 0), tmp_path / "c.jsonl")
    tested = membership_options({"canaries": str(tmp_path / "c.jsonl")}).tested()
    planted = sum(canary.planted for canary in flipped(canaries, 0))
    assert sum(text.member for text in tested.texts) == planted
    lines = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    for line in lines:
        if line.get("coin") and line["planted"]:
            line |= {"planted": False, "repetitions": 0}
            break
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    with pytest.raises(LeakageError, match="differs from the coin"):
        membership_options({"canaries": str(tmp_path / "c.jsonl")}).tested()
