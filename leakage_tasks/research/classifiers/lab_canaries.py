"""Canaries similar to Table 1 of Mix and Match, with words that our encoder was pre-trained on."""

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
"""Canaries of the kinds of Table 1, in its order; neighbours share a category."""
SMALL_LABELLED = tuple(f"My default port number is {number}" for number in (2001, 1994, 8601, 2231, 3986))
"""Five sentences that differ only in the last token, as in section 5.3."""


def words() -> list[str]:
    """Return every word of these canaries; each must be one token."""
    texts = [*(canary.text for canary in SMALL_TABLE), *SMALL_LABELLED]
    return sorted({word for text in texts for word in words_of(text)})
