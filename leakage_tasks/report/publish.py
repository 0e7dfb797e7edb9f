"""Reports on results of the harness, one function call each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.card.card import make_card, read_card, read_measured_run
from leakage_tasks.report.load.results import files_read, read_runs
from leakage_tasks.report.load.samples import audit_of
from leakage_tasks.report.page import page

if TYPE_CHECKING:
    from leakage_tasks.report.evidence.files import Verification


def write_board(results: str | Path, path: str | Path) -> None:
    """Write the leaderboard page of all runs in a folder, or of one file. Raises LeakageError.

    Examples:
        >>> from leakage_tasks import write_board
        >>> write_board("results", "leaderboard.html")
    """
    with unchanged(*files_read([results])):
        text = page(make_board(read_runs([results])))
    write_text(Path(path), text)


def write_card(results: str | Path, path: str | Path, name: str | None = None) -> None:
    """Write a run's results into a model card; creates the card if it does not exist. Raises LeakageError.

    Examples:
        >>> from leakage_tasks import write_card
        >>> write_card("results", "README.md", name="mine")
    """
    with unchanged(*files_read([results]), Path(path)):
        run = read_measured_run(Path(results))
        card = make_card(read_card(Path(path)), Path(path), run, name=name, audited=audit_of(run, 0.0))
    write_text(Path(path), card.text)


def write_report(
    results: str | Path,
    path: str | Path,
    *,
    name: str = "",
    release: str = "",
    delta: float = 0.0,
    model: str | Path | Sequence[str | Path] | None = None,
    manifest: str | Path | None = None,
    data: Sequence[str | Path] = (),
    selftest: str | Path | None = None,
) -> None:
    """Write the evidence on one run as a page that :func:`verify_report` checks offline.

    Args:
        results: A results file, or a folder with the results of one run.
        path: The page to write.
        name: Name of the model in the report; by default the run's.
        release: How the model is released, in your words.
        delta: The δ of the audit's (ε, δ)-differential privacy.
        model: Folder or file of the model's weights, to hash; several for a base model and its adapter.
        manifest: Manifest of the canaries; it must be the run's.
        data: Files or folders of training data, to hash.
        selftest: File of ``leakage selftest -o``, to show its checks.

    Raises:
        LeakageError: If there are no results or several runs, or a file does not belong to the run.

    Examples:
        >>> from leakage_tasks import write_report
        >>> write_report("results", "report.html", release="open weights", manifest="canaries.jsonl")
    """
    from leakage_tasks.report.evidence.files import Files
    from leakage_tasks.report.evidence.gather import gather
    from leakage_tasks.report.evidence.page import page
    from leakage_tasks.report.evidence.record import Settings

    inputs = Files(_paths(model), _path(manifest), tuple(map(Path, data)), _path(selftest))
    with unchanged(*files_read([results]), *inputs.paths):
        text = page(gather(Path(results), Settings(name, release, delta, (), ()), inputs))
    write_text(Path(path), text)


def verify_report(
    path: str | Path,
    *,
    results: str | Path | None = None,
    model: str | Path | Sequence[str | Path] | None = None,
    manifest: str | Path | None = None,
    data: Sequence[str | Path] = (),
) -> list[Verification]:
    """Check a page of :func:`write_report` against itself, and against the given files.

    Args:
        path: The page.
        results: The results file, or a folder with it.
        model: Folder or file of the model's weights, or several.
        manifest: Manifest of the canaries.
        data: Files or folders of training data.

    Returns:
        One outcome per check: ``passed`` (None if this installation cannot check it), and ``words``.

    Raises:
        LeakageError: If the file is no report, or the report has no hash for a given file.

    Examples:
        >>> from leakage_tasks import verify_report, write_report
        >>> write_report("results", "report.html")
        >>> [outcome.passed for outcome in verify_report("report.html", results="results")]
        [True, True, True, True, True, True]
    """
    from leakage_tasks.report.evidence.files import Files
    from leakage_tasks.report.evidence.verify import verify

    files = Files(_paths(model), _path(manifest), tuple(map(Path, data)), results=_path(results))
    return verify(path, files).outcomes


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _paths(paths: str | Path | Sequence[str | Path] | None) -> tuple[Path, ...]:
    if paths is None:
        return ()
    return (Path(paths),) if isinstance(paths, str | Path) else tuple(map(Path, paths))
