"""Values that readers of files stumble over."""

from __future__ import annotations

from random import Random
from typing import Any

LONG = 1 << 20
"""Bytes of the longest line, about a megabyte."""
TEXTS = (
    *("", " ", "\n", "a\r\nb", "\x00", "\x1b[2J\x1b]0;owned\x07", "\u202etxt.exe", "\ufeff", "\ud800", "\udfff\ud800"),
    *("\u2028", "\x85", "\x7f", "e\u0301\u0301\u0301", "🧑‍🚒", "İ"),
    *("{digits:4}", "{", "}}{{", "{digits:99999999}", "{0.__class__}", "%s%n"),
    *("../../etc/passwd", "/dev/null", "-1", "--help", "NaN", "1e400", "٣", "²", "null", "None"),
    *("<script>alert(1)</script>", "<!-- leakage:end -->", "$x_{1}$ `a` [b](javascript:c) @d |", "=1+1"),
    *("&a *a !!python/object:os.system", "---\n", "',\"\\"),
)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 7, 255, 256, 10_000, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**18),
    *(10**308, 10**309, 10**399, -(10**399)),
    *(0.0, -0.0, 0.5, 1.0, 1e-320, 1e-12, 1.5e308, -1.5e308, 1e16),
    *(float("nan"), float("inf"), float("-inf")),
)
RAW = {
    "@raw:deep-list@": "[" * 50_000 + "]" * 50_000,
    "@raw:deep-object@": '{"a":' * 20_000 + "1" + "}" * 20_000,
    "@raw:list@": "[" * 200 + "]" * 200,
    "@raw:digits@": "9" * 5_000,
    "@raw:float@": "1." + "0" * 5_000 + "1e5",
    "@raw:exponent@": "1e999999999",
    "@raw:minus-zero@": "-0",
    "@raw:surrogate@": '"\\ud83d"',
    "@raw:nul@": '"\\u0000"',
    "@raw:bad-escape@": '"\\x41"',
    "@raw:control@": '"\x01\x1b"',
}
"""JSON that no Python value is written as, by the text that stands for it until it is written."""
PIECES = (
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\x1b[31m"),
    *(b"\r", b"\r\n", b"\n\n", b"\x85", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\t", b" ", b'"', b"'", b",", b";", b"\\"),
    *(b"{", b"}", b"[", b"]", b":", b"null", b"NaN", b"-Infinity", b"---\n", b"# ", b"&a", b"*a", b"%", b"=", b"<"),
)


def text(stream: Random) -> str:
    """A hostile text, seldom a long one."""
    odds = stream.random()
    if odds < 0.01:
        return stream.choice("ab\u202e\x1b ") * stream.choice((3_000, 100_000))
    if odds < 0.3:
        return "".join(stream.choices(TEXTS, k=stream.randint(2, 3)))
    if odds < 0.5:
        return "".join(map(chr, (stream.randrange(0x20, 0x2FF) for _ in range(stream.randint(1, 12)))))
    return stream.choice(TEXTS)


def value(stream: Random, depth: int = 2) -> Any:
    """Any JSON value, of any type."""
    odds = stream.random()
    if odds < 0.35:
        return stream.choice(NUMBERS)
    if odds < 0.6:
        return text(stream)
    if odds < 0.72:
        return stream.choice((None, True, False))
    if odds < 0.77:
        return stream.choice(list(RAW))
    if depth == 0:
        return stream.choice(([], {}))
    if odds < 0.89:
        return [value(stream, depth - 1) for _ in range(stream.randrange(4))]
    return {text(stream): value(stream, depth - 1) for _ in range(stream.randrange(4))}
