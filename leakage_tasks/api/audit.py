"""An audit in one call: a model and canaries in, figures, findings and reports out."""

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
from leakage_tasks.core.option import near
from leakage_tasks.report.board.board import Board, Entry, make_board
from leakage_tasks.report.board.formats import as_text
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import flag_words, interval, number, verdict_words
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.publish import write_board, write_card

if TYPE_CHECKING:
    import pandas as pd

    from leakage_tasks.attacks.finding import Finding
    from leakage_tasks.canaries.canary import Canary

CANARY_TASKS = ("canary_extraction", "canary_exposure")
_ADAPTERS = {
    "ForMaskedLM": ("adapters.masked_lm", "MaskedLM"),
    "ForSequenceClassification": ("adapters.classifier_scorer", "ClassifierScorerLM"),
    "NLUTagger": ("adapters.nlu_tagger", "NLUTaggerLM"),
}
"""How the classes of models are called that are none for the harness' own ``hf``, and what takes them."""


@dataclass(frozen=True)
class Audit:
    """What an audit came to. Its files are in a temporary folder that goes with it, unless one was named."""

    file: Path
    """The results, as ``lm_eval --output_path`` writes them; the samples are beside it."""
    results: Mapping[str, Any] = field(repr=False)
    """What the harness returned, without the samples."""
    _kept: Any = field(default=None, repr=False)

    @cached_property
    def _board(self) -> Board:
        return make_board(read_runs([self.file]))

    @property
    def _entry(self) -> Entry:
        (entry,) = self._board.entries
        return entry

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures with their intervals, their controls' and their counts, by ``task/row``."""
        return {key.removesuffix(",none"): each for key, each in self._entry.figures.items()}

    @property
    def verdicts(self) -> list[str]:
        """What may be concluded of each task, and why."""
        return verdict_words(self._entry.verdicts)

    @property
    def flags(self) -> list[str]:
        """What is wrong with the run, such as controls that are off chance; empty where nothing is."""
        return flag_words(self._entry.flags)

    @property
    def findings(self) -> dict[str, list[Finding]]:
        """What was found out about each canary, by task."""
        return findings_by_task(self.file)

    def to_frame(self) -> pd.DataFrame:
        """The findings as a tidy frame, a row a canary and task."""
        return findings_frame(self.findings)

    def to_card(self, path: str | Path, name: str | None = None) -> None:
        """Write section and ``model-index`` into a model card, as ``leakage card`` does; make it if there is none."""
        write_card(self.file, Path(path), name)

    def to_html(self, path: str | Path) -> None:
        """Write the page that ``leakage leaderboard -o`` writes. Natural secrets are masked."""
        write_board(self.file, Path(path))

    def __str__(self) -> str:
        return as_text(self._board)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_cell(column.heading)}</td><td>{_cell(number(found.value))}</td><td>{_cell(interval(found))}</td>"
            f"<td>{_cell(number(found.control))}</td><td>{_cell(found.count)}</td></tr>"
            for column in self._board.columns
            if column.shown and (found := self._entry.figure(column)).value is not None
        )
        head = "".join(f"<th>{each}</th>" for each in ("figure", "value", "95 % interval", "controls", "n"))
        notes = "".join(f"<p>{_cell(each)}</p>" for each in (*self.verdicts, *self.flags))
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
    """Measure what can be got out of a model, with the numbers that ``lm_eval`` gives on the command line.

    ``model`` is a `transformers` model (causal, translating, masked, classifying, tagging, with a PEFT adapter or
    without), a folder or hub name of a causal one, or any model of the harness. ``canaries`` are a manifest or what it
    holds. ``metadata`` are other options of tasks and attacks, as ``--metadata`` takes them. ``name`` is what reports
    call the model, unless given what it calls itself. Results and samples go to ``output`` if it is given. With
    ``apply_chat_template`` canaries are turns of a chat, after ``system_instruction`` if there is one; a text is the
    name of the template, for a tokenizer that has several.

    Raises OptionError for tasks and options that there are not, a model that is none and a tokenizer that is not the
    model's, and LeakageError as the tasks do.

    Examples:
        >>> from leakage_tasks import audit, make_canaries
        >>> found = audit(model, tokenizer, make_canaries("The pin is {digits:2}.", 2, controls=2))
        >>> sorted(found.findings)
        ['canary_exposure', 'canary_extraction']
        >>> len(found.to_frame())
        8
    """
    from leakage_tasks.harness.plugin import install
    from leakage_tasks.harness.run import evaluate_into, our_tasks

    install()
    known = our_tasks({}).all_tasks
    for task in tasks:
        if task not in known:
            raise OptionError(f"audit: tasks: {task!r} is none of ours: use {', '.join(known)}{near(task, known)}")
    if not tasks:
        raise OptionError(f"audit: tasks is empty: give some of {', '.join(known)}")
    lm = _harness_model(model, tokenizer, batch_size, device)
    kept = tempfile.TemporaryDirectory(prefix="leakage-audit-") if output is None else None
    folder = Path(kept.name if kept else str(output))
    with as_manifest(canaries, needed=not set(tasks).isdisjoint(CANARY_TASKS)) as manifest:
        given = {"attack": attack, "seed": seed, **metadata} | ({"canaries": str(manifest)} if manifest else {})
        chat = {"apply_chat_template": apply_chat_template, "system_instruction": system_instruction}
        results, file = evaluate_into(folder, name or _name_of(model), lm, tasks, given, **chat)
    return Audit(file, results, kept)


def _harness_model(model: Any, tokenizer: Any, batch_size: int | str, device: str | None) -> Any:
    """A model as the harness knows it. Raises OptionError."""
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
    where = device if named else str(model.device)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    place = next((each for end, each in _ADAPTERS.items() if end in type(base).__name__), None)
    options = {"tokenizer": tokenizer, "batch_size": batch_size, "device": where}
    if place is not None and not named:
        return getattr(import_module(place[0]), place[1])(model, **options)
    backend = "seq2seq" if getattr(getattr(base, "config", None), "is_encoder_decoder", False) else "default"
    with _without_advice():
        return HFLM(str(model) if named else model, backend=backend, **options)


@contextmanager
def _without_advice() -> Iterator[None]:
    """Keep to itself what the harness says of models in memory: there is nothing that the user could do about it."""
    spoken = logging.getLogger("lm_eval.models.huggingface")
    level = spoken.level
    spoken.setLevel(logging.ERROR)
    try:
        yield
    finally:
        spoken.setLevel(level)


def _name_of(model: Any) -> str:
    """What a model calls itself, or else its class is called."""
    if isinstance(model, str | Path):
        return str(model)
    inner = getattr(model, "model", model)
    name = str(getattr(getattr(inner, "config", None), "_name_or_path", "") or type(inner).__name__)
    # An adapter in memory does not know the folder that it came from.
    return f"{name} + adapter" if getattr(model, "peft_config", None) else name


def _check_pair(model: Any, tokenizer: Any) -> None:
    """Raise OptionError for a tokenizer whose tokens the model has not."""
    embeddings = model.get_input_embeddings()
    rows = getattr(embeddings, "num_embeddings", None)
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
