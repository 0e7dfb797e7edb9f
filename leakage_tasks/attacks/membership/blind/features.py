"""Numbers that describe a text without a model: its dates, its length and its style."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from leakage_tasks.core.arrays import FloatArray

_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_MONTH_WORD = "(" + "|".join(_MONTHS) + r")[a-z]*\.?"
_YEAR_PART = r"((?:1[5-9]|20)\d\d)(?!\d)"
_WITH_MONTH = (
    # 2021-03-12, 2021/3
    (re.compile(r"(?<!\d)" + _YEAR_PART + r"[-/.](0?[1-9]|1[0-2])(?!\d)"), (0, 1)),
    # 12/03/2021: the middle number, which is the month in most countries and at most 12 in no other place
    (re.compile(r"(?<!\d)\d{1,2}[-/.](0?[1-9]|1[0-2])[-/.]" + _YEAR_PART), (1, 0)),
    # 12 March 2021, March 2021, Mar. 2021
    (re.compile(r"\b" + _MONTH_WORD + r",?\s+" + _YEAR_PART, re.IGNORECASE), (1, 0)),
    # March 12, 2021
    (re.compile(r"\b" + _MONTH_WORD + r"\s+\d{1,2}(?:st|nd|rd|th)?,?\s+" + _YEAR_PART, re.IGNORECASE), (1, 0)),
)
_WORD = re.compile(r"\w+")


def dates_in(text: str) -> list[float]:
    """Return the years from 1500 to 2099 in a text; a year with its month has the month as a fraction."""
    dates = [float(year) for year in _YEAR.findall(text)]
    for pattern, (year, month) in _WITH_MONTH:
        for groups in pattern.findall(text):
            word = groups[month].lower()
            number = _MONTHS[word] if word in _MONTHS else int(word)
            dates.append(int(groups[year]) + (number - 1) / 12)
    return dates


def date_features(text: str) -> list[float]:
    """Return the latest, earliest and mean date of a text, and the number of dates on a logarithmic scale.

    A text without a date has the value 0 four times.
    """
    dates = dates_in(text)
    return [max(dates), min(dates), float(np.mean(dates)), float(np.log1p(len(dates)))] if dates else [0.0] * 4


def length_features(text: str) -> list[float]:
    """Return the length of a text in characters, words and lines, and shares of kinds of characters and words."""
    words, characters = _WORD.findall(text), max(len(text), 1)
    number, data = max(len(words), 1), text.encode("utf-8", "surrogatepass")
    kinds = (str.isdigit, str.isupper, str.isspace, str.isalnum, str.isascii)
    return [
        float(len(text)),
        float(len(words)),
        float(text.count("\n")),
        sum(map(len, words)) / number,
        float(max(map(len, words), default=0)),
        len({word.lower() for word in words}) / number,
        len(zlib.compress(data)) / max(len(data), 1),
        *(sum(map(kind, text)) / characters for kind in kinds),
    ]


def feature_table(texts: Sequence[str], dates: bool) -> FloatArray:
    """Return the features of dates, or of length and style: ``[texts, features]``."""
    of = date_features if dates else length_features
    return np.array([of(text) for text in texts], np.float64)
