"""Multiple-choice tasks in the harness' format from local text, to measure accuracy along with leakage.

A task is a YAML file with a file of questions. The harness reads a folder of them with ``--include_path``.
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
"""Names of the two tasks."""
QUESTIONS, CHOICES = 200, 4
_BEGINNING, _CONTINUATION = 40, 12
_WITHIN_A_WORD = re.compile(r"(?<=[a-z]{2})(?=[a-z]{2})")


@dataclass(frozen=True)
class Question:
    """A text, its possible answers, and the index of the right one."""

    text: str
    choices: tuple[str, ...]
    answer: int


def continuation_questions(
    held_out: str, training: str = "", *, count: int = QUESTIONS, seed: int = 0
) -> list[Question]:
    """Return ``count`` questions that ask which of four texts continues a held-out line.

    A line is broken off within a word after at least 40 characters. The right answer is the next 12 characters of the
    text; the others continue other lines. (Between words almost any text can follow, and the demo's model does little
    better than chance.) Lines whose beginning or continuation occurs in ``training`` are excluded. Equal arguments give
    equal questions. Raises OptionError if too few lines remain.
    """
    pairs = [
        (beginning, continuation)
        for beginning, continuation in dict(_broken_lines(held_out)).items()
        if len(continuation) == _CONTINUATION and beginning not in training and continuation not in training
    ]
    distinct = sorted({continuation for _, continuation in pairs})
    if len(pairs) < count or len(distinct) < CHOICES:
        raise OptionError(
            f"count is {count}: the held-out text yields {len(pairs)} questions; use that number or fewer"
        )
    stream = random.Random(f"continuations:{seed}")
    return [_question(stream, *pair, distinct) for pair in stream.sample(pairs, count)]


def module_questions(
    rows: Sequence[Row], labels: Sequence[str], *, count: int = QUESTIONS, seed: int = 0
) -> list[Question]:
    """Return ``count`` questions that ask for the label of a held-out text among four labels, three of them at random.

    Equal arguments give equal questions. Raises OptionError if there are too few rows or labels.
    """
    if len(rows) < count or len(set(labels)) < CHOICES:
        raise OptionError(
            f"count is {count}: there are {len(rows)} rows and {len(set(labels))} labels; "
            f"pass at least {count} rows and {CHOICES} labels"
        )
    stream = random.Random(f"modules:{seed}")
    distinct = sorted(set(labels))
    return [_question(stream, text, label, distinct) for text, label in stream.sample(list(rows), count)]


def write_task(folder: str | Path, name: str, questions: Sequence[Question], *, delimiter: str = "") -> Path:
    """Write ``NAME.yaml`` and ``NAME.jsonl`` to ``folder``, which is created if missing; return the YAML's path.

    The task reports ``acc`` and ``acc_norm``; ``delimiter`` separates text and answer. The YAML has the questions'
    absolute path, so the harness may run in any folder. Raises LeakageError if a file cannot be written.
    """
    import yaml

    target = Path(folder).resolve()
    target.mkdir(parents=True, exist_ok=True)
    data, config = target / f"{name}.jsonl", target / f"{name}.yaml"
    with replacing(data) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
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
    """Yield the beginning and continuation of each long line; a continuation may extend beyond the line."""
    first = 0
    for line in text.splitlines(keepends=True):
        within = _WITHIN_A_WORD.search(line, _BEGINNING)
        if within:
            cut = first + within.start()
            yield text[first:cut], text[cut : cut + _CONTINUATION]
        first += len(line)
