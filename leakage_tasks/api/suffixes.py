"""What followed a prefix in the training data, drawn out of a model in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.api.audit import audit
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.signal_cleanup import temporary_folder

if TYPE_CHECKING:
    from leakage_tasks.api.audit import Audit
    from leakage_tasks.pairs import Pair


def extract_suffixes(model: Any, tokenizer: Any, pairs: str | Path | Sequence[Pair | str], **options: Any) -> Audit:
    """Draw suffixes after prefixes, pick one by a confidence, and tell how often and how likely it is the true one.

    ``pairs`` are a file or folder that the task ``suffix_extraction`` takes as ``data``, a list of texts, which are cut
    into prefix and suffix, or pairs of token ids, all of which are attacked. ``options`` are those of :func:`audit` and
    of the task. Raises OptionError and what the task raises.

    Examples:
        >>> from leakage_tasks import Pair, extract_suffixes
        >>> found = extract_suffixes(model, tokenizer, [Pair(0, (3, 4), (5, 6)), Pair(1, (4, 5), (6, 3))], samples=4)
        >>> found.figures["suffix_extraction/recall"].count
        2
    """
    if isinstance(pairs, str | Path):
        return audit(model, tokenizer, tasks=["suffix_extraction"], data=str(pairs), **options)
    with temporary_folder() as folder:
        _write(pairs, folder / "pairs.jsonl")
        given = {"split": "all", **options, "data": str(folder / "pairs.jsonl")}
        return audit(model, tokenizer, tasks=["suffix_extraction"], **given)


def _write(pairs: Sequence[Pair | str], path: Path) -> None:
    """Write pairs or texts as the JSON lines that the task reads. Raises OptionError for what is neither."""
    import jsonlines

    from leakage_tasks.pairs import Pair

    kinds = {type(each) for each in pairs}
    if kinds not in ({Pair}, {str}):
        raise OptionError("pairs: give a file or folder, a list of texts, or a list of leakage_tasks.Pair")
    with jsonlines.open(path, "w") as lines:
        for each in pairs:
            row = (
                {"prefix": list(each.prefix), "suffix": list(each.suffix)} if isinstance(each, Pair) else {"text": each}
            )
            lines.write(row)
