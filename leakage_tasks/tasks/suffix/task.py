"""The task ``suffix_extraction``: can a model complete a training text from its beginning?

A document is the id of a pair. Neither document nor request holds a token, because the harness writes both verbatim.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.confidences import CONFIDENCES, FREQUENCY
from leakage_tasks.attacks.suffix.finding import HEADLINE, Answer, SelectedView, Selection, suffix_finding_from_json
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.core.option import Options
from leakage_tasks.core.task_names import SUFFIXES as TASK
from leakage_tasks.harness.api import LM
from leakage_tasks.metrics.aggregates import count
from leakage_tasks.metrics.metric import Metric, MetricSpec
from leakage_tasks.metrics.suffix_scoring import SUFFIX_EXTRACTION, selected_view
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.source import PAIR_OPTIONS, pairs_hash, read_pairs
from leakage_tasks.pairs.submission import SuffixGuess, write_submission, wrong_allowed
from leakage_tasks.tasks.base_task import Document
from leakage_tasks.tasks.dispatch import Answer as Answering
from leakage_tasks.tasks.sharing import Sharing
from leakage_tasks.tasks.suffix.options import (
    SUFFIX_OPTIONS,
    SuffixOptions,
    check_sweeps,
    read_suffix_options,
    usual_validation,
)
from leakage_tasks.tasks.suffix.suffix_handler import answering
from leakage_tasks.tasks.text_task import TextTask

FEW = 100
"""Number of pairs below which a default test split causes a warning."""
GUESSES_WRITTEN: Metric[Any, Any] = MetricSpec(
    "guesses_written", "guesses written to the file that guesses= names"
).row(lambda reading: None, count, in_table=True)
"""Metric whose values the task computes itself."""


class SuffixExtraction(TextTask):
    """Extraction of verbatim suffixes from prefixes as token ids: recall, and the exact probability of the true
    suffix."""

    OUTPUT_TYPE = "attack_pairs"
    CORPUS = True
    DOCUMENTS, SOURCE = "pairs", "pairs"
    SCORING = SUFFIX_EXTRACTION
    HANDLER: Callable[[LM], Answering] = staticmethod(answering)
    OPTIONS: Options = SUFFIX_OPTIONS
    READ_OPTIONS: Callable[[Mapping[str, Any]], SuffixOptions] = staticmethod(read_suffix_options)
    NO_PROTOCOL: Collection[str] = (*PAIR_OPTIONS, "seed", "reveal", "guesses", "controls")
    SHARING = Sharing(pack=lambda answer: [answer, answer.guess], unpack=lambda packed: _answer(*packed))
    options: SuffixOptions

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._why_left_out: Counter[str] = Counter()
        super().__init__(config)

    def read_documents(self) -> list[Document]:
        """Read pairs and controls, check the options against them, and return a document for each."""
        options = self.options
        self._pairs = pairs = options.tested()
        attacked = options.attacked()
        check_sweeps(attacked, options.request)
        options.fitted_on()
        self.advise(len(pairs))
        self.columns = {selection.name: partial(_column_answer, selection) for selection in options.selections}
        places = {pair.id: index for index, pair in enumerate(pairs)}
        return [self.document(places.get(pair.id), pair) for pair in attacked]

    def metrics_for(self, given: Mapping[str, Any]) -> list[Metric[Any, Any]]:
        """Return the metrics for the options ``given``."""
        return [*super().metrics_for(given), GUESSES_WRITTEN]

    def document(self, place: int | None, pair: Pair) -> Document:
        """Return the record of a pair, with its tokens if ``reveal`` is true."""
        shown = {"prefix": list(pair.prefix), "suffix": list(pair.suffix)} if self.options.reveal else {}
        return {"pair": pair.id, "place": place, "tokens": [len(pair.prefix), len(pair.suffix)], **shown}

    def usual(self) -> dict[str, Any]:
        """Return the defaults that depend on the confidence and on the number of pairs with a value."""
        request, pairs = self.options.request, int(self.found.get("n") or 0)
        return {"validation": usual_validation(request.confidence), "wrong": wrong_allowed(pairs)}

    def advise(self, tested: int) -> None:
        """Warn of settings that make metrics of ``tested`` pairs less informative than they seem."""
        options = self.options
        if "split" not in options.given and tested < FEW:
            every = len(read_pairs(replace(options.source, split="all")))
            if every > tested:
                warn_once(
                    f"{TASK}: the test split holds {tested} of {every} pairs: pass split=all for all of them, unless a "
                    "prompt or a confidence is fitted on the others"
                )
        if options.wrong is not None and options.wrong >= tested:
            warn_once(
                f"{TASK}: recall_early_stop allows {options.wrong} wrong guesses of {tested} pairs, so it equals "
                f"recall: leave wrong= out for the benchmark's proportion, 100 in 1,000"
            )

    def doc_to_text(self, doc: Mapping[str, Any]) -> str:
        """Return the tokens of the prefix, or a mask."""
        return " ".join(map(str, doc["prefix"])) if "prefix" in doc else MASK

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return the tokens of the suffix, or a mask."""
        return " ".join(map(str, doc["suffix"])) if "suffix" in doc else MASK

    def apply_filters(self) -> None:
        """Read the columns. A model that only generates text has no columns of confidences based on likelihoods."""
        first = self._instances[0].resps[0] if self._instances else None
        if first is not None and reason_of(first) is None and suffix_finding_from_json(first).only_writes:
            gone = {*CONFIDENCES, TRAINED} - {FREQUENCY}
            self.columns = {name: read for name, read in self.columns.items() if name not in gone}
        super().apply_filters()

    def note_attack(self, finding: str) -> None:
        """Record the scheme of decoding of an answer, and its access to the model."""
        data = json.loads(finding)
        self._attacks.add((data["scheme"], data["access"]))
        self._why_left_out.update([reason] if (reason := data["extra"].get("left_out")) else [])

    def table_note(self) -> str:
        """Return the text after the task's name in the harness' table: if every pair was left out, the usual
        reason."""
        if self._why_left_out and self.found.get("n") == 0:
            return f"no pair tested: {self._why_left_out.most_common(1)[0][0]}"
        return super().table_note()

    def column_values(self, doc: Document, column: str, finding: str) -> dict[str, Any]:
        """Return all values of a pair in a column; all None if the pair was left out."""
        values = super().column_values(doc, column, finding)
        if column == HEADLINE and self.options.guesses is not None:
            reading = selected_view(finding, column, self.options.given)
            guess = finding.guess if isinstance(finding, Answer) else None
            values[GUESSES_WRITTEN.name] = _guess(doc["place"], reading, guess)
        return values

    def hashes(self) -> dict[str, str]:
        """Return the hashes of pairs and controls."""
        unseen = {} if self.options.controls is None else {"controls": pairs_hash(self.options.unseen())}
        return {"data": pairs_hash(self._pairs), **unseen}

    def tested(self) -> dict[str, Any]:
        """Return the number of pairs, and the minimum and maximum number of tokens of prefixes and suffixes."""
        sizes = [tuple(doc["tokens"]) for doc in self.used]
        prefixes, suffixes = zip(*sizes, strict=True)
        controls = sum(doc["pair"] < 0 for doc in self.used)
        return {
            "pairs": len(sizes) - controls,
            **({"unseen_pairs": controls} if controls else {}),
            "prefix_tokens": [min(prefixes), max(prefixes)],
            "suffix_tokens": [min(suffixes), max(suffixes)],
        }

    def aggregation(self) -> dict[str, Callable[..., float | None]]:
        """Return the aggregation of each metric; ``guesses_written`` writes the file."""
        aggregations = super().aggregation()
        if not self.is_null:
            aggregations[GUESSES_WRITTEN.name] = partial(_submit, self.options.guesses, Path(self.options.source.data))
        return aggregations


def _column_answer(selection: Selection, answer: str) -> tuple[str, str]:
    """Return a column's name and the part of the finding that the column needs."""
    if reason_of(answer):
        return selection.name, answer
    text = selection.of(suffix_finding_from_json(answer)).to_json()
    return selection.name, Answer(text, answer.guess if isinstance(answer, Answer) else None)


def _answer(text: str, guess: Sequence[int] | None) -> Answer:
    return Answer(text, None if guess is None else tuple(guess))


def _guess(number: int | None, reading: SelectedView | None, tokens: tuple[int, ...] | None) -> SuffixGuess | None:
    """Return a pair's guess in the challenge's format; pairs are counted from 0 among the tested pairs.

    Return None for a control, for a pair that was left out, and for a guess that ended early.
    """
    if number is None or reading is None or tokens is None or min(tokens) < 0:
        return None
    return SuffixGuess(number, tokens, reading.choice.confidence, reading.choice.bits or 0.0)


def _submit(path: str | None, data: Path, guesses: Sequence[SuffixGuess | None]) -> int:
    written = [guess for guess in guesses if guess is not None]
    assert path is not None
    write_submission(path, written, like=data)
    return len(written)
