"""Dates and style of a text."""

from __future__ import annotations

import pytest

from leakage_tasks.attacks.membership.blind.features import date_features, dates_in, feature_table, length_features


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("no date, 12 and 123456 and 1499 and 2100", []),
        ("in 1999 and 2021.", [1999, 2021]),
        ("published 2021-03-12", [2021, 2021 + 2 / 12]),
        ("on 12 March 2021, then Dec. 1987", [1987, 1987 + 11 / 12, 2021, 2021 + 2 / 12]),
        ("September 3rd, 2001", [2001, 2001 + 8 / 12]),
        ("31/12/2005", [2005, 2005 + 11 / 12]),
        ("phone 20215 20210312", []),
    ],
)
def test_dates_are_years_and_months_of_years(text: str, dates: list[float]) -> None:
    assert sorted(dates_in(text)) == pytest.approx(dates)


def test_the_features_of_dates_are_the_latest_the_earliest_and_the_mean() -> None:
    assert date_features("1990, 2000, 2010")[:3] == [2010, 1990, 2000]
    assert date_features("never") == [0, 0, 0, 0]


def test_the_features_of_style_count_characters_words_and_lines() -> None:
    found = length_features("Ab cd.\nAB 7é")
    assert found[:6] == [12, 4, 1, 2, 2, 3 / 4]
    digits, upper, spaces, alphanumeric, ascii_ = found[7:]
    assert [digits, upper, spaces, alphanumeric, ascii_] == pytest.approx([1 / 12, 3 / 12, 3 / 12, 8 / 12, 11 / 12])


def test_repetitive_text_compresses_better() -> None:
    ratio = [length_features(text)[6] for text in ("ab" * 200, "".join(map(chr, range(300, 700))))]
    assert ratio[0] < 0.1 < ratio[1]


@pytest.mark.parametrize("text", ["", "\ud800 lone surrogate", "\x00\n"])
def test_odd_texts_have_finite_features(text: str) -> None:
    table = feature_table([text, "1999"], dates=False)
    assert table.shape == (2, 12)
    assert (table >= 0).all()
    assert feature_table([text], dates=True).tolist() == [[0, 0, 0, 0]]
