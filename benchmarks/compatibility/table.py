"""The table of all cells, in Markdown, and whether it is good enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.compatibility.cells import AGREES, DECLINED, FAILS, STEPS_ASIDE, Outcome
from benchmarks.compatibility.tokenizers import TOKENIZERS, description

FAST = 0.85
"""Share of cells that must be on the fast path."""
MARKS = {AGREES: "✓", STEPS_ASIDE: "slow", DECLINED: "declined", FAILS: "FAILS"}
TITLES = {
    "causal": "Causal language models",
    "encoder": "Text classifiers",
    "encoder-decoder": "Translation models",
}
HEAD = """# Compatibility

This page says which architectures work with which kinds of tokenizer, and how fast.

```
make compat     # makes this page; it is not written by hand
```

| | |
|---|---|
| ✓ | agrees, on the fast path |
| slow | agrees; the fast path stepped aside with a warning, and a slower one answered |
| declined | one line says why it cannot be done and what to do |
| FAILS | anything else |

**What a cell is.** A small random model of one architecture with one kind of tokenizer. It is put into the harness as
`lm_eval` puts its own (`HFLM`, `backend=seq2seq`, `classifier-scorer`).

**What agrees with what.** All 100 fillings of a template are scored. The costs, ranks and ten best guesses of
`exposure` and `shortest-path` are compared with the harness' own `loglikelihood` of each filling. On classifiers those
of `class-loss` and `label-search` are compared with the model called directly. Costs must agree to 0.001 bits, also of
what a search finds among 10^9 fillings.
"""


SECOND = """## A second engine

`make compat-llama-cpp` (`benchmarks/llama_cpp.py`) trains a small Llama with canaries and writes it as GGUF with
`gguf`'s own writer. llama.cpp's server then answers the unmodified harness by `local-completions` and `gguf`. Building
llama.cpp takes some ten minutes. Against `--model hf` on the same weights:
"""


def summary(outcomes: Sequence[Outcome]) -> str:
    """Counts of the verdicts, the share on the fast path and the largest difference, in one line."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in MARKS)
    largest = max((each.difference or 0.0 for each in outcomes if each.verdict == AGREES), default=0.0)
    return (
        f"{len(outcomes)} cells: {words}; {share_fast(outcomes):.1%} on the fast path, where costs differ by at most "
        f"{largest:.1g} bits"
    )


def share_fast(outcomes: Sequence[Outcome]) -> float:
    """Share of cells that agree on the fast path."""
    return sum(outcome.verdict == AGREES for outcome in outcomes) / len(outcomes)


def good_enough(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing fails and enough is on the fast path."""
    return not any(outcome.verdict == FAILS for outcome in outcomes) and share_fast(outcomes) >= FAST


def page(outcomes: Sequence[Outcome], versions: Mapping[str, str], second: Mapping[str, Any] | None = None) -> str:
    """The whole page; ``second`` is what was found with a second engine."""
    made_with = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = [HEAD, f"{summary(outcomes)}. Made with {made_with}.\n", _legend()]
    for family, title in TITLES.items():
        own = [outcome for outcome in outcomes if outcome.family == family]
        if own:
            parts.append(f"## {title}\n\n{_grid(own)}\n")
            parts += _remarks(own)
    if second is not None:
        parts += [SECOND, *_engines(second), ""]
    return "\n".join(parts)


def _engines(second: Mapping[str, Any]) -> Iterator[str]:
    yield "| context, by | canaries | the ten best guesses | ranks | costs differ by, bits |"
    yield "|---|---|---|---|---|"
    for name, found in second.items():
        if isinstance(found, Mapping) and "guesses_equal" in found:
            guesses, ranks = ("equal" if found[f"{what}_equal"] else "DIFFER" for what in ("guesses", "ranks"))
            cells = (name.replace("_", ", "), found["canaries"], guesses, ranks, f"{found['cost_bits_apart']:.1g}")
            yield f"| {' | '.join(map(str, cells))} |"


def _legend() -> str:
    rows = (f"| {name} | {description(name)} |" for name in TOKENIZERS)
    return "\n".join(["## Tokenizers", "", "| tokenizer | what it does |", "|---|---|", *rows, ""])


def _grid(outcomes: Iterable[Outcome]) -> str:
    rows: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.architecture, {})[outcome.tokenizer] = MARKS[outcome.verdict]
    lines = [f"| {' | '.join(['', *TOKENIZERS])} |", f"|---|{':-:|' * len(TOKENIZERS)}"]
    for architecture, marks in rows.items():
        lines.append(f"| {' | '.join([architecture, *(marks.get(name, '') for name in TOKENIZERS)])} |")
    return "\n".join(lines)


def _remarks(outcomes: Iterable[Outcome]) -> list[str]:
    """What was said of cells, once each, with the cells it was said of."""
    said: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.words:
            said.setdefault(outcome.words, []).append(f"{outcome.architecture} with {outcome.tokenizer}")
    lines = [f"- {'; '.join(names)}: {words.replace('|', chr(92) + '|')}" for words, names in said.items()]
    return [*lines, ""] if lines else []
