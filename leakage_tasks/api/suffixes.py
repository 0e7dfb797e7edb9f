"""Extraction of training suffixes from a model in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.api.audit import audit
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.core.task_names import SUFFIXES

if TYPE_CHECKING:
    from leakage_tasks.api.audit import Audit
    from leakage_tasks.pairs import Pair


def extract_suffixes(model: Any, tokenizer: Any, pairs: str | Path | Sequence[Pair | str], **options: Any) -> Audit:
    """Sample suffixes after prefixes, choose one suffix per prefix, and measure how many of them are true suffixes.

    Args:
        model: See :func:`audit`.
        tokenizer: See :func:`audit`.
        pairs: A file or folder that the task ``suffix_extraction`` accepts as ``data``, a list of texts, which are cut
            into prefix and suffix, or pairs of token ids, all of which are attacked.
        options: Options of :func:`audit` and of the task.

    Returns:
        Figures and reports.

    Raises:
        OptionError: An option is unknown, or ``pairs`` is of another type.
        LeakageError: The task fails.

    Examples:
        >>> from leakage_tasks import Pair, extract_suffixes
        >>> result = extract_suffixes(model, tokenizer, [Pair(0, (3, 4), (5, 6)), Pair(1, (4, 5), (6, 3))], samples=4)
        >>> result.figures["suffix_extraction/recall"].count
        2
    """
    if isinstance(pairs, str | Path):
        return audit(model, tokenizer, tasks=[SUFFIXES], data=str(pairs), **options)
    with temporary_folder() as folder:
        _write(pairs, folder / "pairs.jsonl")
        task_options = {"split": "all", **options, "data": str(folder / "pairs.jsonl")}
        return audit(model, tokenizer, tasks=[SUFFIXES], **task_options)


def _write(pairs: Sequence[Pair | str], path: Path) -> None:
    """Write pairs or texts as JSON lines for the task. Raises OptionError for other types."""
    import jsonlines

    from leakage_tasks.pairs import Pair

    kinds = {type(pair) for pair in pairs}
    if kinds not in ({Pair}, {str}):
        raise OptionError("pairs: give a file or folder, a list of texts, or a list of leakage_tasks.Pair")
    with jsonlines.open(path, "w") as lines:
        for pair in pairs:
            row = (
                {"prefix": list(pair.prefix), "suffix": list(pair.suffix)} if isinstance(pair, Pair) else {"text": pair}
            )
            lines.write(row)
