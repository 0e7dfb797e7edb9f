"""Cells of the compatibility table: a model of one architecture with one tokenizer, and the verdict on its scores."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.compatibility.architectures import CAUSAL, ENCODER_DECODERS, ENCODERS, Architecture
from benchmarks.compatibility.comparing import Comparison, causal, classifier, encoder_decoder
from benchmarks.compatibility.models import build
from benchmarks.compatibility.tokenizers import TOKENIZERS, tokenizer
from leakage_tasks.core.errors import LeakageError

FAMILIES: dict[str, tuple[Architecture, ...]] = {
    "causal": CAUSAL,
    "encoder": ENCODERS,
    "encoder-decoder": ENCODER_DECODERS,
}
COMPARE: dict[str, Callable[[Any, Any], Comparison]] = {
    "causal": causal,
    "encoder": classifier,
    "encoder-decoder": encoder_decoder,
}
TOKENIZERS_PER_ARCHITECTURE = 3
"""The minimum number of tokenizers to try with an architecture."""
AGREES, SLOW, DECLINED, FAILS = "agree", "agree on a slower path", "declined with a remedy", "fail"


@dataclass(frozen=True)
class Cell:
    """A combination of a model family, an architecture and a tokenizer, by their names."""

    family: str
    architecture: str
    tokenizer: str

    @property
    def name(self) -> str:
        """The cell's name as a file name."""
        words = f"{self.family} {self.architecture} {self.tokenizer}".lower().replace(",", "")
        return words.replace(" ", "-")


@dataclass(frozen=True)
class Outcome:
    """A cell's verdict, the message if it is not on the fast path, the largest difference in bits, and the seconds."""

    family: str
    architecture: str
    tokenizer: str
    verdict: str
    words: str = ""
    difference: float | None = None
    seconds: float = 0.0


def cells() -> list[Cell]:
    """Return all cells, family by family: each architecture with its usual tokenizers, then with others in turn."""
    names, turn, result = list(TOKENIZERS), 0, []
    for family, architectures in FAMILIES.items():
        for architecture in architectures:
            chosen = list(architecture.usual)
            while len(chosen) < TOKENIZERS_PER_ARCHITECTURE:
                if names[turn % len(names)] not in chosen:
                    chosen.append(names[turn % len(names)])
                turn += 1
            result += [Cell(family, architecture.model_type, name) for name in chosen]
    return result


def first_of_each(every: Sequence[Cell]) -> list[Cell]:
    """Return the cells in another order: the first of each architecture, with families in turn, then the others."""
    firsts: dict[tuple[str, str], Cell] = {}
    for cell in every:
        firsts.setdefault((cell.family, cell.architecture), cell)
    families = {family: [cell for cell in firsts.values() if cell.family == family] for family in FAMILIES}
    turns = itertools.zip_longest(*families.values())
    chosen = [cell for turn in turns for cell in turn if cell is not None]
    return chosen + [cell for cell in every if cell not in set(chosen)]


def run(cell: Cell, device: str = "cpu") -> Outcome:
    """Build the cell's model on ``device`` and compare the attacks' costs with the reference."""
    start = time.perf_counter()
    with _warnings() as warnings:
        verdict, words, difference = _verdict(cell, warnings, device)
    shown = " ".join(words.split())[:300]
    return Outcome(
        **asdict(cell),
        verdict=verdict,
        words=shown,
        difference=None if difference is None else float(difference),
        seconds=_since(start),
    )


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 2)


def _verdict(cell: Cell, warnings: Sequence[str], device: str) -> tuple[str, str, float | None]:
    architecture = next(known for known in FAMILIES[cell.family] if known.model_type == cell.architecture)
    tokens = tokenizer(cell.tokenizer)
    try:
        comparison = COMPARE[cell.family](build(cell.family, architecture, tokens).to(device), tokens)
    except LeakageError as error:
        return (DECLINED if _is_one_line(str(error)) else FAILS), str(error), None
    except Exception as error:
        return FAILS, f"{type(error).__name__}: {error}", None
    if comparison.wrong is not None:
        return FAILS, comparison.wrong, comparison.difference
    if comparison.fast:
        return AGREES, comparison.words, comparison.difference
    slow = [line for line in warnings if "fast scoring" in line]
    return (SLOW, slow[-1], comparison.difference) if slow else (FAILS, "slow without a warning", comparison.difference)


def _is_one_line(text: str) -> bool:
    """Return True if an error message is one line with a remedy after a colon."""
    return "\n" not in text and ": " in text


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect the package's warnings in the block instead of showing them."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("lm_eval.leakage")
    log.addHandler(handler)
    before, log.propagate, log.level = (log.propagate, log.level), False, logging.WARNING
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.propagate, log.level = before
