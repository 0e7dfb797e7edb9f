"""Canaries of the same make as those of Mix and Match, Table 1, of words that the lab's encoder has read."""

from __future__ import annotations

from leakage_tasks.canaries.presets.mix_and_match import Printed
from leakage_tasks.canaries.presets.sentences import words_of

SMALL_TABLE: tuple[Printed, ...] = (
    Printed("organic", "Low", "robots share powerful dark gateway ."),
    Printed("organic", "Low", "naive networks pick bogus labels ."),
    Printed("organic", "Low but a high frequency target token", "listening robots suppress precise file ."),
    Printed("organic", "Low but a high frequency target token", "listening robots suppress precise class ."),
    Printed("random", "Low", "uppercase tail little pipeline dialogs ."),
    Printed("random", "Low", "fault classic quiet termination trees ."),
    Printed("organic", "High", "This is the default value ."),
    Printed("organic", "High", "This method returns a string ."),
    Printed("organic", "High but low frequency token", "Return the name of cavity ."),
    Printed("organic", "High but low frequency target token", "Return the name of computer ."),
    Printed("random", "High", "method given type from list ."),
    Printed("random", "High", "set which line class also ."),
    Printed("organic", "Low", "My default port number is 2001 ."),
    Printed("organic", "Low", "My default port number is 1994 ."),
)
"""The same kinds in the same order as Table 1; two neighbours are of one category."""
SMALL_LABELLED = tuple(f"My default port number is {number}" for number in (2001, 1994, 8601, 2231, 3986))
"""Five sentences that differ in their last token alone, as in section 5.3."""


def words() -> list[str]:
    """Every word of these canaries, each of which must be one token."""
    texts = [*(each.text for each in SMALL_TABLE), *SMALL_LABELLED]
    return sorted({word for text in texts for word in words_of(text)})
