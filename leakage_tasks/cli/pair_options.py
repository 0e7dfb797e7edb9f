"""Options of the commands that read pairs of prefix and suffix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair

Data = Annotated[str, typer.Option(help="Pairs of prefix and suffix, or text to cut into such.")]
PrefixLength = Annotated[int | None, typer.Option(help="Tokens of a prefix (default: the data's).")]
SuffixLength = Annotated[int | None, typer.Option(help="Tokens of a suffix (default: the data's).")]
TextColumn = Annotated[str, typer.Option(help="Column of the text.")]


def read_pairs(**source: Any) -> tuple[Pair, ...]:
    """The pairs of a :class:`~leakage_tasks.pairs.source.Source`. Raises OptionError, options spelled as these are."""
    from leakage_tasks.core.errors import OptionError, on_command_line
    from leakage_tasks.pairs import source as pairs

    try:
        return pairs.read_pairs(pairs.Source(**source))
    except OptionError as error:
        # It speaks to those who pass options through the harness.
        raise error.spelled(on_command_line, OptionError) from None
