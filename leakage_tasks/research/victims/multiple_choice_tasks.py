"""Multiple-choice tasks of the harness' own kind from text at hand: usefulness beside leakage, without a download.

A task is a YAML file with its questions beside it; a folder of such goes to the harness with ``--include_path``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import replacing, write_text
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.jsonl import write_json_lines

if TYPE_CHECKING:
    from leakage_tasks.research.victims.docstrings import Row

CONTINUATION, MODULE = "help_continuation", "docstring_module"
"""The names of the two tasks."""
QUESTIONS, CHOICES = 200, 4
_BEGINNING, _CONTINUATION = 40, 12
_WITHIN_A_WORD = re.compile(r"(?<=[a-z]{2})(?=[a-z]{2})")


@dataclass(frozen=True)
class Question:
    """A text, its possible answers, and the place of the right one among them, from 0."""

    text: str
    choices: tuple[str, ...]
    answer: int


def continuation_questions(
    held_out: str, training: str = "", *, count: int = QUESTIONS, seed: int = 0
) -> list[Question]:
    """``count`` questions which of four texts goes on where a held-out line is broken off.

    A line is broken off within a word, after 40 characters or a few more; the right answer is the next 12 characters
    of the text, the others are as many that go on from other lines. (Between words nearly everything may follow: the
    demo's model does little better than chance there.) Lines whose beginning or continuation occurs in ``training``
    are left out. The same arguments give the same questions. Raises OptionError where too few lines are left.
    """
    pairs = [
        (beginning, continuation)
        for beginning, continuation in dict(_broken_lines(held_out)).items()
        if len(continuation) == _CONTINUATION and beginning not in training and continuation not in training
    ]
    distinct = sorted({continuation for _, continuation in pairs})
    if len(pairs) < count or len(distinct) < CHOICES:
        raise OptionError(f"count is {count}: the held-out text gives {len(pairs)} questions; give that or fewer")
    stream = random.Random(f"continuations:{seed}")
    return [_question(stream, *pair, distinct) for pair in stream.sample(pairs, count)]


def module_questions(
    rows: Sequence[Row], labels: Sequence[str], *, count: int = QUESTIONS, seed: int = 0
) -> list[Question]:
    """``count`` questions which of four labels a held-out text has; the other three are drawn from ``labels``.

    The same arguments give the same questions. Raises OptionError where there are too few rows or labels.
    """
    if len(rows) < count or len(set(labels)) < CHOICES:
        raise OptionError(
            f"count is {count}: there are {len(rows)} rows and {len(set(labels))} labels; "
            f"give {count} rows and {CHOICES} labels or more"
        )
    stream = random.Random(f"modules:{seed}")
    distinct = sorted(set(labels))
    return [_question(stream, text, label, distinct) for text, label in stream.sample(list(rows), count)]


def write_task(folder: str | Path, name: str, questions: Sequence[Question], *, delimiter: str = "") -> Path:
    """Write ``NAME.yaml`` and ``NAME.jsonl`` to ``folder``, which is made if missing; returns the YAML.

    The task gives ``acc`` and ``acc_norm``; ``delimiter`` stands between text and answer. The YAML names the questions
    by their full path, as the harness may run anywhere. Raises LeakageError if it cannot be written.
    """
    import yaml

    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    data, config = place / f"{name}.jsonl", place / f"{name}.yaml"
    with replacing(data) as beside, beside.open("w", encoding="utf-8", newline="\n") as out:
        write_json_lines(map(asdict, questions), out)
    write_text(config, yaml.safe_dump(_config(name, data, delimiter), sort_keys=False, allow_unicode=True))
    return config


def _config(name: str, data: Path, delimiter: str) -> dict[str, Any]:
    metrics = [{"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in ("acc", "acc_norm")]
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "output_type": "multiple_choice",
        "test_split": "test",
        "doc_to_text": "text",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "target_delimiter": delimiter,
        "num_fewshot": 0,
        "metric_list": metrics,
        "metadata": {"version": 1.0},
    }


def _question(stream: random.Random, text: str, right: str, others: Sequence[str]) -> Question:
    choices = [right]
    while len(choices) < CHOICES:
        drawn = stream.choice(others)
        if drawn not in choices:
            choices.append(drawn)
    stream.shuffle(choices)
    return Question(text, tuple(choices), choices.index(right))


def _broken_lines(text: str) -> Iterator[tuple[str, str]]:
    """(beginning, continuation) of each line that is long enough; a continuation runs on over the line's end."""
    first = 0
    for line in text.splitlines(keepends=True):
        within = _WITHIN_A_WORD.search(line, _BEGINNING)
        if within:
            place = first + within.start()
            yield text[first:place], text[place : place + _CONTINUATION]
        first += len(line)
