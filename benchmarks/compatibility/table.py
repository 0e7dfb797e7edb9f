"""The compatibility page in Markdown: summary, one grid per model family, and the messages of other cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.compatibility.cells import AGREES, DECLINED, FAILS, SLOW, Outcome
from benchmarks.compatibility.tokenizers import TOKENIZERS, description

MIN_FAST_SHARE = 0.85
"""The minimum share of cells on the fast path."""
MARKS = {AGREES: "✓", SLOW: "slow", DECLINED: "declined", FAILS: "FAILS"}
TITLES = {
    "causal": "Causal language models",
    "encoder": "Text classifiers",
    "encoder-decoder": "Translation models",
}
HEAD = """# Compatibility

Use this page to see if your model's architecture and tokenizer are supported, and if they use the fast path. Rows are
architectures (`model_type` in `config.json`), columns are tokenizers. To check your own model:

```
leakage selftest --model hf --model_args pretrained=./mine --batch_size 64
```

| cell | meaning |
|---|---|
| ✓ | results agree with the harness, on the fast path |
| slow | results agree; a warning reports that a slower path is used |
| declined | not supported; an error of one line gives the reason and a remedy |
| FAILS | results differ |
| empty | not tested |

**Test of a cell.** A small random model of the architecture is loaded as by `lm_eval` (`HFLM`, `backend=seq2seq`,
`classifier-scorer`). All 100 fillings of a template are scored with `exposure` and `shortest-path`. Costs, ranks and
the ten best guesses must agree with the harness' own `loglikelihood` to 0.001 bits, and so must costs of guesses among
10^9 fillings. For classifiers, `class-loss` and `label-search` are compared with direct calls of the model.

`make compat` runs all cells and writes this page, in some minutes.
"""
LLAMA_CPP = """## llama.cpp

`make compat-llama-cpp` trains a small Llama with canaries and converts it to GGUF. llama.cpp's server then answers the
unmodified harness. Results of its interfaces, compared with `--model hf`:
"""


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the number of cells per verdict, the share on the fast path and its largest difference, in one line."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in MARKS)
    largest = max((outcome.difference or 0.0 for outcome in outcomes if outcome.verdict == AGREES), default=0.0)
    return (
        f"{len(outcomes)} cells: {verdicts}; {share_fast(outcomes):.1%} on the fast path, with differences of at most "
        f"{largest:.1g} bits"
    )


def share_fast(outcomes: Sequence[Outcome]) -> float:
    """Return the share of cells that agree on the fast path."""
    return sum(outcome.verdict == AGREES for outcome in outcomes) / len(outcomes)


def good_enough(outcomes: Sequence[Outcome]) -> bool:
    """Return True if no cell fails and enough cells are on the fast path."""
    return not any(outcome.verdict == FAILS for outcome in outcomes) and share_fast(outcomes) >= MIN_FAST_SHARE


def page(outcomes: Sequence[Outcome], versions: Mapping[str, str], llama_cpp: Mapping[str, Any] | None = None) -> str:
    """Return the whole page; ``llama_cpp`` holds the results of ``benchmarks/llama_cpp.py``."""
    made_with = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = [HEAD, f"{summary(outcomes)}. Made with {made_with}.\n", _legend()]
    for family, title in TITLES.items():
        members = [outcome for outcome in outcomes if outcome.family == family]
        if members:
            parts.append(f"## {title}\n\n{_grid(members)}\n")
    parts += _remarks(outcomes)
    if llama_cpp is not None:
        parts += [LLAMA_CPP, *_llama_cpp_rows(llama_cpp), ""]
    return "\n".join(parts)


def _llama_cpp_rows(results: Mapping[str, Any]) -> Iterator[str]:
    yield "| context, interface | canaries | ten best guesses | ranks | difference of costs, bits |"
    yield "|---|---|---|---|---|"
    for name, result in results.items():
        if isinstance(result, Mapping) and "guesses_equal" in result:
            guesses, ranks = ("equal" if result[f"{key}_equal"] else "DIFFER" for key in ("guesses", "ranks"))
            cells = (name.replace("_", ", "), result["canaries"], guesses, ranks, f"{result['cost_bits_apart']:.1g}")
            yield f"| {' | '.join(map(str, cells))} |"


def _legend() -> str:
    rows = (f"| {name} | {description(name)} |" for name in TOKENIZERS)
    return "\n".join(["## Tokenizers", "", "| column | tokenizer |", "|---|---|", *rows, ""])


def _grid(outcomes: Iterable[Outcome]) -> str:
    rows: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.architecture, {})[outcome.tokenizer] = MARKS[outcome.verdict]
    lines = [f"| {' | '.join(['', *TOKENIZERS])} |", f"|---|{':-:|' * len(TOKENIZERS)}"]
    for architecture, marks in rows.items():
        lines.append(f"| {' | '.join([architecture, *(marks.get(name, '') for name in TOKENIZERS)])} |")
    return "\n".join(lines)


def _remarks(outcomes: Iterable[Outcome]) -> list[str]:
    """Return one line per message, after the architectures that printed it, and the tokenizer if all had the same one;
    messages that differ in costs only are one."""
    cells: dict[str, dict[str, list[str]]] = {}
    for outcome in outcomes:
        if outcome.words:
            # After a semicolon warnings only describe the slower path.
            message = re.sub(r"\[[-\d., einfa]+\]", "…", outcome.words.split("; ")[0]).replace("`", "'")
            cells.setdefault(message, {}).setdefault(outcome.tokenizer, []).append(outcome.architecture)
    if not cells:
        return []
    lines = ["## Messages", "", "These cells are not on the fast path, or only in a small space:", ""]
    for message, architectures in cells.items():
        names = ", ".join(dict.fromkeys(model for models in architectures.values() for model in models))
        tokenizer = f" with {next(iter(architectures))}" if len(architectures) == 1 else ""
        lines.append(f"- {names}{tokenizer}: `{message}`")
    return [*lines, ""]
