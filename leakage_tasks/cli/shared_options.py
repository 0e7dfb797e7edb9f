"""Options that several commands share: models, pairs, shards and reports; and checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import OptionError, on_command_line
from leakage_tasks.core.option import near
from leakage_tasks.report.plots.style import KINDS

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair


def writable(path: Path | None) -> Path | None:
    """Return the path of an option, before any work starts. Raises LeakageError if no file can be written there."""
    if path is not None:
        check_place(path)
    return path


def _delta(delta: float) -> float:
    if not 0 <= delta < 1:
        raise OptionError(f"--delta is {delta:g}: give a number of at least 0 and less than 1, such as 1e-5")
    return delta


def check_reports(outputs: list[Path] | None) -> list[Path] | None:
    """Return the paths of ``--output``, before any work starts.

    Raises LeakageError for a file that is no page, data or picture by its ending, or that cannot be written.
    """
    for path in outputs or ():
        if path.suffix.lower() not in _REPORTS:
            raise OptionError(f"--output {path}: unknown kind of file: use a name that ends in {', '.join(_REPORTS)}")
        check_place(path)
    return outputs


def output_option(words: str, check: Callable[[Any], Any] = writable) -> Any:
    """Return the option ``--output`` of a command; ``words`` describe it, and ``check`` checks its value."""
    return typer.Option("--output", "-o", callback=check, help=words)


DEVICE = "cuda:0"
"""The default of ``lm_eval``, which falls back to the CPU on machines without a GPU."""
Model = Annotated[str, typer.Option("--model", help="Kind of model, as for lm_eval: hf, classifier-scorer, vllm, …")]
ModelArgs = Annotated[
    str,
    typer.Option(
        "--model_args", "--model-args", help="Arguments of the model, as for lm_eval: pretrained=./mine,dtype=float32"
    ),
]
Device = Annotated[str, typer.Option(help="Device, as for lm_eval: cpu, cuda, cuda:1, …")]
BatchSize = Annotated[
    str | None, typer.Option("--batch_size", "--batch-size", help="Batch size, as for lm_eval: a number, or auto.")
]
MaxBatchSize = Annotated[
    int | None,
    typer.Option("--max_batch_size", "--max-batch-size", help="Upper limit for --batch_size auto, as for lm_eval."),
]
JsonOutput = Annotated[Path | None, output_option("Also write the results to this file, as JSON.")]
Data = Annotated[str, typer.Option(help="Pairs of a prefix and a suffix, or text that is cut into pairs.")]
PrefixLength = Annotated[int | None, typer.Option(help="Number of tokens in a prefix (default: as in the data).")]
SuffixLength = Annotated[int | None, typer.Option(help="Number of tokens in a suffix (default: as in the data).")]
TextColumn = Annotated[str, typer.Option(help="Column of the text.")]
Jobs = Annotated[int, typer.Option(help="Number of shards to process in parallel, each in its own process.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Address of a Dask scheduler whose workers process the shards, such as tcp://host:8786."
    ),
]
Delta = Annotated[float, typer.Option(callback=_delta, help="δ of the audit's (ε, δ)-differential privacy.")]
_REPORTS = (".html", ".json", *KINDS)
"""Endings of the files that a report is written to: a page, data, or a picture."""


def read_values(text: str, option: str) -> dict[str, Any]:
    """Return values by name, given as ``name=value,…`` or as a JSON object. Raises OptionError."""
    from leakage_tasks.harness.plugin import metadata_words

    try:
        values = metadata_words(text) if text else {}
    except Exception:
        values = None
    if not isinstance(values, dict):
        raise OptionError(f"{option} {text}: give name=value,… or a JSON object, such as {option} seed=1")
    return values


def read_pairs(**source: Any) -> tuple[Pair, ...]:
    """Return the pairs of a :class:`~leakage_tasks.pairs.source.Source`.

    Raises OptionError, with options spelled as on the command line, and for chats: a run may have rendered them by the
    chat template of its model, and its pairs are then others.
    """
    from leakage_tasks.pairs import source as pairs
    from leakage_tasks.pairs.document_texts import hold_chats

    chosen = pairs.Source(**source)
    try:
        is_text = Path(chosen.data).exists() and not pairs.holds_token_pairs(chosen)
        if is_text and hold_chats(chosen.data, chosen.text_column):
            raise OptionError(
                f"{chosen.data}: holds chats, and this command reads no chat template: save the rows as the text that "
                "the model reads, or give pairs of token ids"
            )
        return pairs.read_pairs(chosen)
    except OptionError as error:
        # The library spells options as in --metadata, for users of the harness.
        raise error.spelled(on_command_line, OptionError) from None


def read_waivers(allow: Sequence[str] | None) -> tuple[str, ...]:
    """Return the current names of the conditions that ``--allow`` names. Raises OptionError for an unknown name."""
    from leakage_tasks.core.former_names import current_waiver
    from leakage_tasks.report.check import WAIVERS

    waivers = tuple(map(current_waiver, allow or ()))
    for waiver in waivers:
        if waiver not in WAIVERS:
            use = f"{', '.join(WAIVERS)}{near(waiver, WAIVERS)}"
            raise OptionError(f"--allow is {waiver!r}, not a condition of leakage check: use {use}")
    return waivers
