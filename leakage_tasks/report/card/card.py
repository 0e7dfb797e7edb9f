"""Model cards with leakage results: a section of the text and entries in the ``model-index``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.card.file import CardParts, split_card
from leakage_tasks.report.card.index import eval_results, model_name, one_line, unfit
from leakage_tasks.report.card.section import section
from leakage_tasks.report.card.splice import front_data, with_results
from leakage_tasks.report.load.comparability import check_scored, measured
from leakage_tasks.report.load.markdown import escaped
from leakage_tasks.report.load.results import read_one_run
from leakage_tasks.report.load.run import Run

BOM = "\ufeff"


@dataclass(frozen=True)
class Card:
    """A card with a run's results: its ``text``, the ``section`` in it, and the number of ``results`` of ``name``.

    ``unfit`` lists the tasks without results in the model-index, each with the reason.
    """

    text: str
    section: str
    name: str
    results: int
    unfit: tuple[tuple[str, str], ...]


def read_measured_run(path: str | Path) -> Run:
    """Return the one run with leakage results under ``path``. Raises ResultsError for another number of runs."""
    run = read_one_run(path)
    if not measured(run):
        check_scored(run)
        raise ResultsError(
            f"{path}: no leakage was measured: run lm_eval with a task such as canary_exposure, or --tasks leakage"
        )
    return run


def make_card(
    old: str | None,
    path: Path,
    run: Run,
    *,
    name: str | None = None,
    delta: float = 0.0,
    audited: Sequence[AuditFigure],
) -> Card:
    """Write a run's results into a card; every byte outside the section and the results stays as it is.

    Args:
        old: The card's text; None for a new card.
        path: The card's path, for messages.
        run: The run to describe.
        name: The model's name; None for the card's own, or else the run's name.
        delta: The δ of the auditing metrics.
        audited: The auditing metrics of the run's samples.

    Returns:
        The new card.

    Raises:
        OptionError: If the card's marks or front matter are damaged, or ``huggingface_hub`` cannot load the result.
    """
    board = make_board([run])
    new = f"\n# {escaped(one_line(name if name is not None else run.name))}\n"
    parts = split_card(new if old is None else old.removeprefix(BOM), path)
    data = front_data(parts)
    name = model_name(data, run.name, name)
    results = eval_results(board, data.get("pipeline_tag"))
    text = section(board, name, audited, delta).encode("utf-8", "replace").decode()
    # The section comes first, so that errors on its marks give line numbers of the unchanged file.
    parts = with_results(parts.with_section(text), name, results)
    _check_loads(parts)
    mark = BOM if old is not None and old.startswith(BOM) else ""
    left_out = tuple((one_line(task), why) for task, why in unfit(board).items())
    return Card(mark + parts.text, text, name, len(results), left_out)


def read_card(path: Path) -> str | None:
    """Return a card's text with its line ends unchanged, or None if there is no card. Raises OptionError."""
    if not path.exists():
        return None
    if not path.is_file():
        raise OptionError(f"{path}: not a file: give the path of the card, such as {path / 'README.md'}")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: not UTF-8 at byte {error.start}: save the card as UTF-8") from None


def _check_loads(parts: CardParts) -> None:
    """Raise OptionError for a card that ``huggingface_hub``, and so the hub, does not accept."""
    from huggingface_hub import ModelCard

    try:
        ModelCard(parts.text)
    except Exception as error:  # Any error means that the hub would reject the card.
        why = one_line(str(error))
        raise OptionError(f"{parts.path}: huggingface_hub cannot load it ({why}): correct its front matter") from None
