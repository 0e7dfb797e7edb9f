"""Old names of fields beside the present ones."""

import pickle
from dataclasses import asdict, dataclass, replace

from leakage_tasks.core.old_names import accept_old_names


@accept_old_names(old="new")
@dataclass(frozen=True)
class Named:
    other: int
    new: str = ""


def test_a_field_is_given_by_either_name() -> None:
    assert Named(1, old="a") == Named(1, new="a") == Named(1, "a")


def test_a_field_is_shown_by_either_name() -> None:
    assert (Named(1, "a").old, Named(1, "a").new) == ("a", "a")


def test_a_field_is_replaced_by_its_old_name() -> None:
    assert replace(Named(1, "a"), old="b") == Named(1, "b")


def test_records_have_the_new_name_alone() -> None:
    assert asdict(Named(1, old="a")) == {"other": 1, "new": "a"}
    assert pickle.loads(pickle.dumps(Named(1, old="a"))) == Named(1, "a")
