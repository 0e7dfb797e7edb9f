"""Search of texts that a model in memory writes for its training text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.api.audit import audit
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.core.task_names import TEXTS as TASK

if TYPE_CHECKING:
    from leakage_tasks.api.audit import Audit


def search_texts(
    model: Any,
    tokenizer: Any,
    corpus: str | Path | Sequence[str],
    controls: str | Path | Sequence[str] | None = None,
    **options: Any,
) -> Audit:
    """Let a model write texts, and measure how many of them contain runs of training text.

    Args:
        model: See :func:`audit`.
        tokenizer: See :func:`audit`; the corpus is searched as tokens of this tokenizer.
        corpus: Training text: a file, folder or index that the task ``untargeted_extraction`` accepts as ``data``, or a
            list of documents.
        controls: Text that the model never saw, in one of these forms. Without controls no figure represents the model.
        options: Options of :func:`audit` and of the task.

    Returns:
        Figures and reports.

    Raises:
        OptionError: An option is unknown, or the corpus is of another type.
        LeakageError: The task fails.

    Examples:
        >>> from leakage_tasks import search_texts
        >>> seen, unseen = ["the pin of anna is 17"] * 4, ["a lazy dog sleeps"] * 4
        >>> result = search_texts(model, tokenizer, seen, unseen, kinds="empty", texts=3, length=8, run_length=4)
        >>> result.figures["untargeted_extraction/extracted"].count
        3
    """
    with temporary_folder() as folder:
        named = {"data": _named(corpus, folder / "corpus.jsonl", "corpus")}
        if controls is not None:
            named["controls"] = _named(controls, folder / "controls.jsonl", "controls")
        # The argument ``tokenizer`` of an audit is the object; the task reads a tokenizer by its name.
        tokenizer.save_pretrained(folder / "tokenizer")
        named["tokenizer"] = str(folder / "tokenizer")
        return audit(model, tokenizer, tasks=[TASK], **{**options, TASK: named})


def _named(text: str | Path | Sequence[str], path: Path, argument: str) -> str:
    """Return the path of a corpus; documents in memory are written to ``path``. Raises OptionError."""
    import jsonlines

    if isinstance(text, str | Path):
        return str(text)
    if not text or {type(document) for document in text} != {str}:
        raise OptionError(f"{argument}: give a file, folder or index, or a list of texts")
    with jsonlines.open(path, "w") as lines:
        lines.write_all({"text": document} for document in text)
    return str(path)
