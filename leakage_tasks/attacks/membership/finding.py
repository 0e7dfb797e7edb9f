"""Result of one text: its scores by attack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.records import Between, JsonRecord, read_record

MOST = 1 << 40
Number = Annotated[int, Between(-MOST, MOST)]
Count = Annotated[int, Between(0, MOST)]
SCHEME = "membership"


@dataclass(frozen=True)
class MembershipFinding(JsonRecord):
    """Result of one text, without the text and its tokens.

    ``text`` is the number of the text in its data, −1 − number for a non-member. Texts of one ``cluster`` depend on
    each other. A text that ``chooses`` belongs to the part on which the attack and the thresholds are chosen.
    ``tokens`` is the number of tokens read. ``scores`` are empty for a text that is left out because it is too short.
    ``blind`` are scores of baselines that never ask the model. ``not_run`` are the attacks of the run without a score,
    each with the reason. ``suspected`` is True for a text whose membership is unknown, which is then no ``member``, and
    None in a run without such texts.
    """

    text: Number
    member: bool
    cluster: Count
    chooses: bool
    tokens: Count
    scores: dict[str, float] = field(default_factory=dict)
    blind: dict[str, float] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    scheme: str = SCHEME
    data: str = ""
    settings_hash: str = ""
    access: str = ""
    suspected: bool | None = None


def membership_finding_from_json(text: str) -> MembershipFinding:
    """Read a finding from the text of ``to_json``. Raises ValueError if the text is not a finding."""
    return read_record(MembershipFinding, parse_json(text))
