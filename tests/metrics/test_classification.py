"""Which rows a table has on classifiers, and what they say."""

from leakage_tasks.attacks import Finding
from leakage_tasks.metrics import exposure, extraction


def finding(attack: str = "label-search", planted: bool = True, **fields) -> Finding:
    given = {"correct": (False,), "place": 30, "extra": {"ranked": 100}, **fields}
    return Finding("c", attack, planted, 1, "random", log2_size=10.0, **given)


def rows(found: Finding, metrics) -> dict[str, float | None]:
    return {metric.name: metric.value(found) for metric in metrics if metric.applies(found)}


def test_success_at_more_than_was_ranked_is_open():
    assert rows(finding(), extraction.METRICS)["success_at_200"] is None


def test_chance_stands_beside_what_inversion_finds_with_ten_guesses():
    extra = {"unfinished": [False], "best_loss": 1.0, "secret_loss": 2.0}
    found = rows(finding("inversion", extra=extra), extraction.METRICS)
    assert (found["success_at_10"], found["chance_at_1"], found["chance_at_10"]) == (0, 1 / 1024, 10 / 1024)
    assert "chance_at_50" not in found


def test_chance_is_never_above_certainty():
    small = Finding("c", "label-search", True, 1, "random", log2_size=5.0, correct=(True,), place=1)
    assert rows(small, extraction.METRICS)["chance_at_200"] == 1.0


def test_language_models_have_none_of_these_rows():
    names = rows(finding("greedy", extra={}), extraction.METRICS)
    assert not [name for name in names if "50" in name or "chance" in name or "candidate" in name]
    assert "class_loss" not in rows(finding("exposure", extra={}), exposure.METRICS)


def test_a_pruned_rank_that_is_not_defined_keeps_its_row():
    found = finding("mix-and-match", extra={"candidate_rank": 7, "pruned_rank": None, "ranked": 9})
    assert rows(found, extraction.METRICS)["pruned_rank"] is None


def test_what_a_shortlist_kept_is_averaged_over_slots():
    found = finding(extra={"ranked": 10, "shortlist_kept": [1.0, 0.5]})
    assert rows(found, extraction.METRICS)["shortlist_kept"] == 0.75
