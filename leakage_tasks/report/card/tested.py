"""Description of the data behind a task's values, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from leakage_tasks.report.load.figures import learnt_from
from leakage_tasks.report.load.format import learnt_words
from leakage_tasks.report.load.validate import as_words

KINDS = {
    "random": "synthetic, drawn at random",
    "organic": "synthetic, written by a person",
    "natural": "natural, from the training text",
}
_HALF = 0.005
"""Largest error of a logarithm that is rounded to two digits."""
_MOST = 50
"""log2 of the largest number that is written in full."""
COUNTED = {
    "controls": "{:,} controls, generated like the canaries and never planted",
    "near_copies": "{:,} of the copies have other words around the secret",
    "sources": "{:,} canaries with a source sentence, which a translation model reads",
    "pairs": "{:,} pairs of a prefix and the suffix that follows it",
    "unseen_pairs": "{:,} controls, pairs of text that the model never saw",
    "windows": "{:,} windows of a prefix and the suffix that follows it",
    "texts": "{:,} texts that the model wrote",
    "corpus_tokens": "{:,} tokens of the training text",
    "corpus_documents": "{:,} documents of the training text",
    "control_tokens": "{:,} tokens of control text, which the model never saw",
    "control_documents": "{:,} documents of control text, which the model never saw",
    "documents": "{:,} documents",
    "documents_too_short": "{:,} drawn documents too short",
    "controls_too_short": "{:,} drawn controls too short",
    "documents_repeated": "{:,} drawn documents equal to others",
    "members": "{:,} texts that the model was trained on",
    "nonmembers": "{:,} texts that it was not trained on",
    "suspected": "{:,} suspected texts",
    "clusters": "{:,} groups of texts that belong together",
    "items": "{:,} items of the benchmark",
    "shards": "{:,} shards of consecutive items",
    "shuffles": "{:,} shuffles of each shard",
    "twins": "{:,} items with a twin in other words",
}
"""Descriptions of entries that are numbers, by name."""
AVAILABLE = "_available"
"""The end of an entry's name that counts the data from which another entry was taken."""


def describe_tested(tested: Mapping[str, Any]) -> str:
    """Describe the data behind a task's values; unknown entries appear as ``name: value``."""
    elsewhere = ["repetitions", "example", "planted_data", "planted_sha256", "planted_share", "sizes"]
    elsewhere += [f"{name}{AVAILABLE}" for name in COUNTED if name in tested]
    absent = [name for name in ("documents_too_short", "controls_too_short") if not tested.get(name)]
    facts = [_words(name, value, tested) for name, value in tested.items() if name not in (*elsewhere, *absent)]
    example = tested.get("example")
    if isinstance(example, str) and "natural" not in as_list(tested.get("kinds")):
        facts.append(f"for example “{example}”, with the secret in braces")
    return "; ".join(facts) or "not recorded in the results"


def _words(name: str, value: Any, tested: Mapping[str, Any]) -> str:
    try:
        return _known(name, value, tested)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return f"{name}: {as_words(value)}"


def _known(name: str, value: Any, tested: Mapping[str, Any]) -> str:
    """Describe one known entry; raises KeyError for an unknown entry, other errors for a value of an odd form."""
    if name in COUNTED:
        return _counted(COUNTED[name], int(value)) + _taken_from(name, int(value), tested)
    match name:
        case "planted":
            what = "{:,} secrets of the training text" if _is_natural(tested) else "{:,} canaries planted"
            return f"{_counted(what, int(value))}{_by_copies(tested.get('repetitions'))}"
        case "planting" if value == "none" and _is_natural(tested):
            return "nothing was added to the training text"
        case "planting" if value == "proven":
            return f"planting proven by {tested['planted_data']} (SHA-256 {tested['planted_sha256'][:12]}…)"
        case "planting":
            words = {"claimed": "planting claimed by the manifest, not proven by data", "none": "nothing planted"}
            return words[value]
        case "learnt_from":
            if (learnt := learnt_from(value)) is None:
                raise KeyError(name)
            return f"{learnt_words(*learnt)}, according to the check of the training data before training"
        case "kinds":
            return f"kind: {' or '.join(KINDS.get(kind, kind) for kind in value)}"
        case "uniform" if value is True:
            return "by the secrets' format every possible value was equally likely"
        case "families":
            counts = [f"{int(number):,} {family}" for family, number in value.items()]
            return f"families: {', '.join(counts)}"
        case "log2_size":
            return f"each secret is one of {_sizes(value, tested.get('sizes'))} possible values"
        case "generator" if isinstance(value, str):
            return f"candidates of the generator {value}"
        case "benchmark":
            return f"the benchmark {value}"
        case "chosen_attack":
            return f"the values are of the attack {value}, chosen on the other half of the texts"
        case "not_run":
            return f"not run: the {'attacks' if len(value) > 1 else 'attack'} {', '.join(sorted(value.keys()))}"
        case "offset":
            return "windows at random places" if value == "random" else f"windows from token {int(value):,} on"
        case "seed":
            return f"seed {int(value)}"
        case "prefix_tokens" | "suffix_tokens":
            return f"{name.removesuffix('_tokens')}es of {_span(value)} tokens"
    raise KeyError(name)


def _counted(words: str, number: int) -> str:
    """Insert a number into words whose first noun is in the plural, and put the noun into the singular for 1."""
    text = words.format(number)
    if number != 1:
        return text
    text = text.replace("canaries", "canary", 1).replace("copies have", "copies has", 1)
    return re.sub(r"^(1 (?:drawn |suspected )?)([a-z]+[^s ])s\b", r"\1\2", text)


def _taken_from(name: str, number: int, tested: Mapping[str, Any]) -> str:
    """State how many there are in the data, if the results record it."""
    if (available := tested.get(f"{name}{AVAILABLE}")) is None:
        return ""
    if number == int(available):
        return ", all in the data"
    return f", {'the first of' if name == 'items' else 'drawn from'} {int(available):,}"


def _is_natural(tested: Mapping[str, Any]) -> bool:
    return tested.get("kinds") == ["natural"]


def _by_copies(copies: Any) -> str:
    if not isinstance(copies, dict) or not copies:
        return ""
    counts = ((int(number), int(times)) for times, number in copies.items())
    parts = (f"{number:,} of them {'once' if times == 1 else f'{times:,} times'}" for number, times in counts)
    return f" ({', '.join(parts)})"


def _span(value: Any) -> str:
    low, high = map(float, value if isinstance(value, list) else (value, value))
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _sizes(bits: Any, sizes: Any) -> str:
    """Return the smallest and the largest size of the spaces of secrets, exact if the results state it."""
    ends = bits if isinstance(bits, list) else [bits]
    exact = sizes if isinstance(sizes, list) and len(sizes) == len(ends) else [None] * len(ends)
    shown = [_count(float(end)) if size is None else f"{int(size):,}" for end, size in zip(ends, exact, strict=True)]
    return " to ".join(dict.fromkeys(shown))


def _count(bits: float) -> str:
    """Return a size from its logarithm, which results state with two digits; exact if one number fits the digits."""
    if bits > _MOST:
        return f"2^{bits:.1f}"
    least, most = math.ceil(2 ** (bits - _HALF)), math.floor(2 ** (bits + _HALF))
    return f"{least:,}" if least == most else f"2^{bits:.1f} (about {float(f'{2**bits:.2g}'):,.0f})"


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and another value as the only entry of a list."""
    return value if isinstance(value, list) else [value]
