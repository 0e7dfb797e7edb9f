"""Options shared by commands that read pairs of a prefix and a suffix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair

Data = Annotated[str, typer.Option(help="Pairs of a prefix and a suffix, or text that is cut into pairs.")]
PrefixLength = Annotated[int | None, typer.Option(help="Number of tokens in a prefix (default: as in the data).")]
SuffixLength = Annotated[int | None, typer.Option(help="Number of tokens in a suffix (default: as in the data).")]
TextColumn = Annotated[str, typer.Option(help="Column of the text.")]


def read_pairs(**source: Any) -> tuple[Pair, ...]:
    """Return the pairs of a :class:`~leakage_tasks.pairs.source.Source`.

    Raises OptionError, with options spelled as on the command line.
    """
    from leakage_tasks.core.errors import OptionError, on_command_line
    from leakage_tasks.pairs import source as pairs

    try:
        return pairs.read_pairs(pairs.Source(**source))
    except OptionError as error:
        # The library spells options as in --metadata, for users of the harness.
        raise error.spelled(on_command_line, OptionError) from None
