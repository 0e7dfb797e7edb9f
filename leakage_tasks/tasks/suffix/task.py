"""The task ``suffix_extraction``: can a model complete a training text from its beginning?

A document is the id of a pair. Neither document nor request holds a token, because the harness writes both verbatim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.confidences import CONFIDENCES, FREQUENCY
from leakage_tasks.attacks.suffix.finding import HEADLINE, Answer, SelectedView, Selection, suffix_finding_from_json
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.canaries.chat import Chat, protocol_of
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.chat_templates import template_name
from leakage_tasks.metrics.aggregates import count
from leakage_tasks.metrics.metric import Metric, MetricSpec
from leakage_tasks.metrics.scoring import SUFFIX_EXTRACTION, inherited, selected_view
from leakage_tasks.metrics.verdict import verdict_of
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.source import PAIR_OPTIONS, pairs_hash, read_pairs
from leakage_tasks.pairs.submission import SuffixGuess, write_submission
from leakage_tasks.tasks.base_task import Document, LocalTask
from leakage_tasks.tasks.dispatch import Answer as Answering
from leakage_tasks.tasks.sharing import Sharing
from leakage_tasks.tasks.suffix.options import TASK, SuffixOptions, check_sweeps, read_suffix_options, suffix_options
from leakage_tasks.tasks.suffix.suffix_handler import answering

_NO_PROTOCOL = {*PAIR_OPTIONS, "seed", "reveal", "guesses", "resume", "model_id", "memory", "controls", "rows"}
FEW = 100
"""Number of pairs below which a default test split causes a warning."""
GUESSES_WRITTEN: Metric[Any, Any] = MetricSpec(
    "guesses_written", "guesses written to the file that guesses= names"
).row(lambda reading: None, count, in_table=True)
"""Metric whose values the task computes itself."""


class SuffixExtraction(LocalTask):
    """Extraction of verbatim suffixes from prefixes as token ids: recall, and the exact probability of the true
    suffix."""

    OUTPUT_TYPE = "attack_pairs"
    CORPUS = True
    CHATS = True
    DOCUMENTS, SOURCE = "pairs", "pairs"
    SCORING = SUFFIX_EXTRACTION
    READ_OPTIONS: Callable[[Mapping[str, Any]], SuffixOptions] = staticmethod(read_suffix_options)
    SHARING = Sharing(pack=lambda answer: [answer, answer.guess], unpack=lambda packed: _answer(*packed))

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._chat: Chat | None = None
        self.METRICS = self.own_metrics({})
        with self.may_lack_options():
            self._take(self.READ_OPTIONS(self.metadata))

    def _take(self, options: SuffixOptions) -> None:
        self.options = options
        self._pairs = pairs = options.tested()
        attacked = options.attacked()
        check_sweeps(attacked, options.request)
        options.fitted_on()
        self.advise(options, len(pairs))
        self.METRICS = self.own_metrics(options.given)
        places = {pair.id: index for index, pair in enumerate(pairs)}
        self._docs = [self.document(places.get(pair.id), pair, options.reveal) for pair in attacked]
        self.columns = {selection.name: partial(_column_answer, selection) for selection in options.selections}

    def own_metrics(self, given: Mapping[str, Any]) -> list[Metric[Any, Any]]:
        """Return the metrics for the options ``given``."""
        return [*self.SCORING.metrics(given, {}), GUESSES_WRITTEN]

    def document(self, place: int | None, pair: Pair, reveal: bool) -> Document:
        """Return the record of a pair, with its tokens if ``reveal`` is true."""
        shown = {"prefix": list(pair.prefix), "suffix": list(pair.suffix)} if reveal else {}
        return {"pair": pair.id, "place": place, "tokens": [len(pair.prefix), len(pair.suffix)], **shown}

    def advise(self, options: SuffixOptions, tested: int) -> None:
        """Warn of settings that make metrics less informative than they seem."""
        _advise(options, tested)

    def build_all_requests(self, **given: Any) -> None:
        """Build the requests; with a chat template, a prefix begins the assistant's turn."""
        system = given.get("system_instruction")
        self._chat = Chat(system=system, template=template_name()) if given.get("apply_chat_template") else None
        super().build_all_requests(**given)

    @classmethod
    def answering(cls, lm: LM) -> Answering:
        """Return the function that attacks the pairs of a group of requests."""
        return answering(lm)

    def doc_to_text(self, doc: Mapping[str, Any]) -> str:
        """Return the tokens of the prefix, or a mask."""
        return " ".join(map(str, doc["prefix"])) if "prefix" in doc else MASK

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return the tokens of the suffix, or a mask."""
        return " ".join(map(str, doc["suffix"])) if "suffix" in doc else MASK

    def request_argument(self, doc: Document) -> dict[str, Any]:
        """Return the settings of the attack; the document is the pair."""
        chat = {} if self._chat is None else {"chat": self._chat.to_json()}
        return {**self.options.given, "optional": self.optional, **chat, **inherited(self.SCORING, self.task_name)}

    def apply_filters(self) -> None:
        """Read the columns. A model that only generates text has no columns of confidences based on likelihoods."""
        first = self._instances[0].resps[0] if self._instances else None
        if first is not None and reason_of(first) is None and suffix_finding_from_json(first).only_writes:
            gone = {*CONFIDENCES, TRAINED} - {FREQUENCY}
            self.columns = {name: read for name, read in self.columns.items() if name not in gone}
        super().apply_filters()

    def values_of(self, doc: Document, answer: tuple[str, str]) -> dict[str, Any]:
        """Return the values of one column for one pair; all None if the pair was left out."""
        name, finding = answer
        if name == HEADLINE:  # Every column is read from equal answers.
            self.note_attack(finding)
        values = self.SCORING.values(finding, name, self.options.given, {})
        if name == HEADLINE and self.options.guesses is not None:
            reading = selected_view(finding, name, self.options.given)
            guess = finding.guess if isinstance(finding, Answer) else None
            values[GUESSES_WRITTEN.name] = _guess(doc["place"], reading, guess)
        return self.in_column(name, values)

    def in_column(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a column for the harness.

        Without ``rows=all``, the main column has the metrics in the table, and the results file the others. Other
        columns have few metrics and keep all.
        """
        return self.in_rows(values) if name == HEADLINE and self.options.rows != "all" else values

    def table_note(self) -> str:
        """Return the verdict without its reason, or the reason for a missing verdict."""
        verdict = verdict_of(self.found, self.tested()) if self.found and not self.is_null else None
        return super().table_note() or ("" if verdict is None else verdict.label)

    def protocol(self) -> dict[str, Any]:
        """Return the hash of the pairs, and the options that two comparable runs must share."""
        given, usual = self.options.given, _default_values()
        chosen = {name: given[name] for name in given if name not in _NO_PROTOCOL and given[name] != usual.get(name)}
        unseen = {} if self.options.controls is None else {"controls": pairs_hash(self.options.unseen())}
        return {"data": pairs_hash(self._pairs), **unseen, **chosen, **protocol_of(self._chat)}

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

    def nulls(self) -> dict[str, None]:
        """Return None for the most important metrics."""
        return dict.fromkeys(self.SCORING.nulls())

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


def _default_values() -> dict[str, Any]:
    """Return the default values of the options that have a default."""
    values = suffix_options({"data": ""})
    return {**vars(values), **vars(values.source), **vars(values.request), **vars(values.request.scheme)}


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


def _advise(options: SuffixOptions, tested: int) -> None:
    """Warn of settings that make metrics less informative than they seem."""
    if "split" not in options.given and tested < FEW:
        every = len(read_pairs(replace(options.source, split="all")))
        if every > tested:
            warn_once(
                f"{TASK}: the test split holds {tested} of {every} pairs: pass split=all for all of them, unless a "
                "prompt or a confidence is fitted on the others"
            )
    if options.wrong is not None and options.wrong >= tested:
        warn_once(
            f"{TASK}: recall_early_stop allows {options.wrong} wrong guesses of {tested} pairs, so it equals recall: "
            f"leave wrong= out for the benchmark's proportion, 100 in 1,000"
        )
