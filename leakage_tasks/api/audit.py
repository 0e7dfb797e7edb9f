"""Audit of a model in one call, with figures, findings and reports as the result."""

from __future__ import annotations

import html
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.api.canaries import as_manifest
from leakage_tasks.api.reports import findings_by_task, findings_frame
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.former_names import current_metric, headline_among
from leakage_tasks.core.option import near
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION
from leakage_tasks.report.board.board import Board, Entry, make_board
from leakage_tasks.report.board.formats import as_text
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import flag_words, interval, number, verdict_words
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.publish import write_board, write_card, write_report

if TYPE_CHECKING:
    import pandas as pd

    from leakage_tasks.attacks.finding import Finding
    from leakage_tasks.canaries.canary import Canary

CANARY_TASKS = (EXTRACTION, EXPOSURE)
_ADAPTERS = {
    "ForMaskedLM": ("adapters.masked_lm", "MaskedLM"),
    "ForSequenceClassification": ("adapters.classifier_scorer", "ClassifierScorerLM"),
    "NLUTagger": ("adapters.nlu_tagger", "NLUTaggerLM"),
}
"""Adapters for models that the harness' model ``hf`` does not support, by a part of the model's class name."""


class _Figures(dict[str, Figure]):
    """Figures by ``task/metric``, which are also found by the former names of metrics."""

    def __missing__(self, key: str) -> Figure:
        task, _, name = key.rpartition("/")
        metric, comma, column = name.partition(",")
        of_task = {other.removeprefix(f"{task}/"): figure for other, figure in self.items()}
        current = f"{task}/{current_metric(metric, headline_among(of_task))}{comma}{column}"
        if current not in self:
            raise KeyError(key)
        return self[current]


@dataclass(frozen=True)
class Audit:
    """The result of an audit. Without ``output=`` its files are in a temporary folder, deleted with this object."""

    file: Path
    """The results file, as ``lm_eval --output_path`` writes it; the samples are in the same folder."""
    results: Mapping[str, Any] = field(repr=False)
    """The results dictionary of the harness, without the samples."""
    _temporary: Any = field(default=None, repr=False)

    @cached_property
    def _board(self) -> Board:
        return make_board(read_runs([self.file]))

    @property
    def _entry(self) -> Entry:
        (entry,) = self._board.entries
        return entry

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures by ``task/metric``, with their intervals, their counts and the values of the controls."""
        return _Figures({key.removesuffix(",none"): figure for key, figure in self._entry.figures.items()})

    @property
    def verdicts(self) -> list[str]:
        """The verdict on each task, with its reason."""
        return verdict_words(self._entry.verdicts)

    @property
    def flags(self) -> list[str]:
        """Problems of the run, such as controls with an exposure above chance; empty if there are no problems."""
        return flag_words(self._entry.flags)

    @property
    def findings(self) -> dict[str, list[Finding]]:
        """The findings for each canary, by task."""
        return findings_by_task(self.file)

    def to_frame(self) -> pd.DataFrame:
        """Return the findings as a tidy frame, with one row for each canary and task."""
        return findings_frame(self.findings)

    def to_card(self, path: str | Path, name: str | None = None) -> None:
        """Write a section and ``model-index`` into a model card, like ``leakage card``; create the card if needed."""
        write_card(self.file, Path(path), name)

    def to_html(self, path: str | Path) -> None:
        """Write an HTML page, like ``leakage leaderboard -o``. Natural secrets are masked."""
        write_board(self.file, Path(path))

    def to_report(self, path: str | Path, **options: Any) -> None:
        """Write the evidence as a page, like ``leakage report``; takes the options of :func:`write_report`."""
        write_report(self.file, Path(path), **options)

    def __str__(self) -> str:
        return as_text(self._board)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_cell(column.heading)}</td><td>{_cell(number(figure.value))}</td><td>{_cell(interval(figure))}</td>"
            f"<td>{_cell(number(figure.control))}</td><td>{_cell(figure.count)}</td></tr>"
            for column in self._board.columns
            if column.shown and (figure := self._entry.figure(column)).value is not None
        )
        head = "".join(f"<th>{heading}</th>" for heading in ("figure", "value", "95 % interval", "controls", "n"))
        notes = "".join(f"<p>{_cell(note)}</p>" for note in (*self.verdicts, *self.flags))
        return f"<table><tr>{head}</tr>{rows}</table>{notes}"


def audit(
    model: Any,
    tokenizer: Any = None,
    canaries: str | Path | Sequence[Canary] = (),
    *,
    tasks: Sequence[str] = CANARY_TASKS,
    attack: str = "auto",
    seed: int = 0,
    batch_size: int | str = 64,
    device: str | None = None,
    name: str | None = None,
    output: str | Path | None = None,
    apply_chat_template: bool | str = False,
    system_instruction: str | None = None,
    **metadata: Any,
) -> Audit:
    """Measure how much training data can be extracted from a model. The figures equal ``lm_eval``'s.

    Args:
        model: A `transformers` model (causal, sequence-to-sequence, masked, classifier or tagger, with or without a
            PEFT adapter), a folder or hub name of a causal model, or any model of the harness.
        tokenizer: The tokenizer of a model in memory.
        canaries: The path of a manifest, or canaries.
        tasks: Names of tasks.
        attack: Name of an attack; ``auto`` chooses one for the model.
        seed: Random seed of the attacks.
        batch_size: Batch size, as ``lm_eval --batch_size`` takes it.
        device: Device for a model that is loaded by name; a model in memory stays on its device.
        name: Name of the model in reports; by default its own name or path.
        output: Folder for results and samples; by default a temporary folder.
        apply_chat_template: Present canaries as turns of a chat, and render rows that are chats; a string selects one
            of several templates.
        system_instruction: System message before these turns.
        metadata: Other options of tasks and attacks, as ``--metadata`` takes them.

    Returns:
        Figures, findings and reports.

    Raises:
        OptionError: Unknown task or option, unsupported model, or a tokenizer that does not belong to the model.
        LeakageError: A task fails.

    Examples:
        >>> from leakage_tasks import audit, make_canaries
        >>> result = audit(model, tokenizer, make_canaries("The pin is {digits:2}.", 2, controls=2))
        >>> sorted(result.findings)
        ['canary_exposure', 'canary_extraction']
        >>> len(result.to_frame())
        8
    """
    from leakage_tasks.harness.plugin import install
    from leakage_tasks.harness.run import evaluate_into, our_tasks

    install()
    known = our_tasks({}).all_tasks
    for task in tasks:
        if task not in known:
            raise OptionError(f"audit: tasks: {task!r} is unknown: use {', '.join(known)}{near(task, known)}")
    if not tasks:
        raise OptionError(f"audit: tasks is empty: give some of {', '.join(known)}")
    lm = _harness_model(model, tokenizer, batch_size, device)
    temporary = tempfile.TemporaryDirectory(prefix="leakage-audit-") if output is None else None
    folder = Path(temporary.name if temporary else str(output))
    with as_manifest(canaries, needed=not set(tasks).isdisjoint(CANARY_TASKS)) as manifest:
        options = {**metadata, **({"canaries": str(manifest)} if manifest else {})}
        # Tasks without an attack or a seed warn about one that is given.
        options |= {name: value for name, value in (("attack", attack), ("seed", seed)) if value not in ("auto", 0)}
        chat = {"apply_chat_template": apply_chat_template, "system_instruction": system_instruction}
        results, file = evaluate_into(folder, name or _name_of(model), lm, tasks, options, **chat)
    return Audit(file, results, temporary)


def _harness_model(model: Any, tokenizer: Any, batch_size: int | str, device: str | None) -> Any:
    """Return the model as a model of the harness. Raises OptionError for an unsupported model or a missing
    tokenizer."""
    from importlib import import_module

    from leakage_tasks.harness.api import LM
    from leakage_tasks.harness.hf import HFLM
    from leakage_tasks.models import register

    register()
    if isinstance(model, LM):
        return model
    named = isinstance(model, str | Path)
    if not named and not hasattr(model, "get_input_embeddings"):
        raise OptionError(
            f"audit: model is a {type(model).__name__}: give a transformers model, its folder or hub name, or a model "
            "of the harness"
        )
    if not named:
        if tokenizer is None:
            raise OptionError("audit: a model in memory comes without its tokenizer: pass tokenizer= too")
        _check_pair(model, tokenizer)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    adapter = next((adapter for part, adapter in _ADAPTERS.items() if part in type(base).__name__), None)
    options = {"tokenizer": tokenizer, "batch_size": batch_size, "device": device if named else str(model.device)}
    if adapter is not None and not named:
        module, name = adapter
        return getattr(import_module(module), name)(model, **options)
    backend = "seq2seq" if getattr(getattr(base, "config", None), "is_encoder_decoder", False) else "default"
    with _without_warnings():
        return HFLM(str(model) if named else model, backend=backend, **options)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence the harness' warnings about models in memory, because the user cannot act on them."""
    logger = logging.getLogger("lm_eval.models.huggingface")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _name_of(model: Any) -> str:
    """Return the name or path in the model's config, or else the name of its class."""
    if isinstance(model, str | Path):
        return str(model)
    inner = getattr(model, "model", model)
    name = str(getattr(getattr(inner, "config", None), "_name_or_path", "") or type(inner).__name__)
    # A PEFT adapter in memory does not store the folder that it was loaded from.
    return f"{name} + adapter" if getattr(model, "peft_config", None) else name


def _check_pair(model: Any, tokenizer: Any) -> None:
    """Raise OptionError if the tokenizer has more tokens than the model has embeddings."""
    from leakage_tasks.targets.embedded_tokens import embedding_of

    rows = getattr(embedding_of(model), "num_embeddings", None)
    tokens = len(tokenizer) if hasattr(tokenizer, "__len__") else None
    if tokens is None or not callable(tokenizer):
        raise OptionError(f"audit: tokenizer is a {type(tokenizer).__name__}: give the model's tokenizer")
    if rows is not None and tokens > rows:
        raise OptionError(
            f"audit: the tokenizer has {tokens} tokens, the model embeddings of {rows}: they do not belong together; "
            "give the tokenizer that the model was trained with"
        )


def _cell(value: object) -> str:
    return html.escape("" if value is None else str(value))
