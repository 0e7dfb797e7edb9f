"""Names of studies."""

from __future__ import annotations

import dataclasses

import pytest

from leakage_tasks.core.registry import PluginError
from leakage_tasks.research.framework.registry import Study, StudyPlan, find_studies, register
from tests.research.toy import Toy, make_study


def test_studies_come_in_the_order_asked_for_each_once(study: Study, toy: Toy) -> None:
    other = register(make_study(toy, "dice/table-1"))
    assert find_studies(["dice", "coins/table-1", "dice/table-1"]) == [other, study]


@pytest.mark.parametrize("name", ["coins", "coins/", "/table-1", "a/b/c", "coins/trials", "coins/shared"])
def test_names_that_make_no_folder_are_refused(study: Study, toy: Toy, name: str) -> None:
    with pytest.raises(ValueError, match="use paper/table"):
        register(make_study(toy, name))


def test_a_name_is_registered_once(study: Study) -> None:
    with pytest.raises(PluginError, match="^study 'coins/table-1' of .* has a name that"):
        register(dataclasses.replace(study, report=find_studies))


def test_seeds_of_a_plan() -> None:
    assert list(StudyPlan("small", seed=3).seeds(2)) == [3, 4]
    assert list(StudyPlan("small", seed=3, trials=1).seeds(2)) == [3]
