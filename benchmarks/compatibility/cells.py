"""One cell of the table: a model of one architecture with one tokenizer, our attacks on it, and how they compare."""

from __future__ import annotations

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
EACH = 3
"""Tokenizers an architecture is tried with, at least."""
AGREES, STEPS_ASIDE, DECLINED, FAILS = "agrees", "steps aside aloud", "declined in one line", "fails"


@dataclass(frozen=True)
class Cell:
    """A family, an architecture and a tokenizer by their names."""

    family: str
    architecture: str
    tokenizer: str

    @property
    def name(self) -> str:
        """A name a file can have."""
        words = f"{self.family} {self.architecture} {self.tokenizer}".lower().replace(",", "")
        return words.replace(" ", "-")


@dataclass(frozen=True)
class Outcome:
    """A cell's verdict; what was said where it does not agree, the largest difference in bits, seconds taken."""

    family: str
    architecture: str
    tokenizer: str
    verdict: str
    words: str = ""
    difference: float | None = None
    seconds: float = 0.0


def cells() -> list[Cell]:
    """All cells, family by family: each architecture with its usual tokenizers and with others in turn."""
    names, turn, found = list(TOKENIZERS), 0, []
    for family, architectures in FAMILIES.items():
        for each in architectures:
            chosen = list(each.usual)
            while len(chosen) < EACH:
                if names[turn % len(names)] not in chosen:
                    chosen.append(names[turn % len(names)])
                turn += 1
            found += [Cell(family, each.model_type, name) for name in chosen]
    return found


def run(cell: Cell) -> Outcome:
    """Build the cell's model and hold our attacks on it against what they must agree with."""
    start = time.perf_counter()
    with _warnings() as said:
        verdict, words, difference = _judged(cell, said)
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


def _judged(cell: Cell, said: Sequence[str]) -> tuple[str, str, float | None]:
    architecture = next(each for each in FAMILIES[cell.family] if each.model_type == cell.architecture)
    tokens = tokenizer(cell.tokenizer)
    try:
        found = COMPARE[cell.family](build(cell.family, architecture, tokens), tokens)
    except LeakageError as error:
        return (DECLINED if _is_one_line(str(error)) else FAILS), str(error), None
    except Exception as error:
        return FAILS, f"{type(error).__name__}: {error}", None
    if found.wrong is not None:
        return FAILS, found.wrong, found.difference
    if found.fast:
        return AGREES, found.words, found.difference
    aside = [line for line in said if "steps aside" in line]
    return (STEPS_ASIDE, aside[-1], found.difference) if aside else (FAILS, "slow without a word", found.difference)


def _is_one_line(text: str) -> bool:
    """Whether an error is one line that goes on to say what can be done."""
    return "\n" not in text and ": " in text


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What the package warns of meanwhile, which is not shown."""
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
