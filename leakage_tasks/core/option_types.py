"""The options of ``--metadata`` and their types, by kind of task; a ``list`` is one of whole numbers."""

from __future__ import annotations

CANARY_TYPES: dict[str, type] = {
    "canaries": str,
    "planted": str,
    "preflight": str,
    "attack": str,
    "budget": int,
    "seed": int,
    "known": str,
    "context": object,
    "reveal": bool,
    "rows": str,
    "source_language": str,
    "target_language": str,
}
"""Of the canary tasks; their attacks have more."""

HELDOUT_NAMES = ("text",)
"""Of the task ``heldout_bits_per_byte``, which the harness itself reads."""

PAIR_TYPES: dict[str, type] = {
    "data": str,
    "prefix_length": int,
    "suffix_length": int,
    "split": str,
    "tokenizer": str,
    "text_column": str,
}
"""Of whatever reads pairs."""

SCHEME_TYPES: dict[str, type] = {"decoding": str, "temperature": float, "top_p": float, "top_k": int, "beams": int}
"""Of whatever draws."""

SUFFIX_TYPES: dict[str, type] = {
    **PAIR_TYPES,
    **SCHEME_TYPES,
    "samples": int,
    "seed": int,
    "confidence": str,
    "comparing_lm": str,
    "lowercase": bool,
    "validation": int,
    "prefix_lengths": list,
    "suffix_lengths": list,
    "sample_counts": list,
    "wrong": int,
    "guesses": str,
    "reveal": bool,
}
"""Of the task ``suffix_extraction``."""
