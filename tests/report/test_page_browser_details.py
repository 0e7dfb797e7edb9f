from __future__ import annotations

import itertools
from typing import Any

from tests.report.browsing import Shown


def test_a_canary_shows_its_right_slots(show: Any):
    show.locator("#run").select_option(label="a")
    case = show.locator("details.case").first
    case.locator("summary").click()
    secret = case.locator(".secret .slot").all_text_contents()
    guess = case.locator(".guesses li").first
    slots = guess.locator(".slot").all_text_contents()
    marked = ["right" in (each.get_attribute("class") or "") for each in guess.locator(".slot").all()]
    assert marked == [left == true for left, true in zip(slots, secret, strict=True)]
    assert True in marked
    spoken = ", ".join(f"{slot} {'right' if hit else 'wrong'}" for slot, hit in zip(slots, marked, strict=True))
    assert guess.locator(".unseen").text_content() == spoken


def test_right_slots_differ_in_more_than_colour(show: Any):
    show.locator("details.case summary").first.click()
    look = "node => { const style = getComputedStyle(node); return [style.fontWeight, style.borderBottomColor]; }"
    right = show.locator(".guesses .slot.right").first.evaluate(look)
    wrong = show.locator(".guesses .slot.wrong").first.evaluate(look)
    assert (right[0], wrong[0]) == ("700", "400")
    assert wrong[1] == "rgba(0, 0, 0, 0)" != right[1]


def test_nothing_of_a_canary_is_made_before_it_is_opened(show: Any):
    assert show.locator("details.case").count() == 40
    assert show.locator(".case-body").count() == 0


def test_long_lists_are_shown_in_parts(show: Any):
    show.locator("#run").select_option(label="pairs")
    rows = show.locator(".pairs tbody tr")
    assert rows.count() == 50
    show.get_by_role("button", name="Show 50 more pairs").press("Enter")
    assert rows.count() == 100
    assert rows.nth(50).evaluate("node => node === document.activeElement")
    show.get_by_role("button", name="Show 20 more pairs").click()
    assert show.get_by_role("button", name="more pairs").count() == 0


def outdoes(one: list[float], other: list[float]) -> bool:
    """At least as good in both, of two figures of which more is better, and better in one."""
    return one != other and all(left >= right for left, right in zip(one, other, strict=True))


def test_the_front_in_words_is_whom_nobody_outdoes(show: Any, written: Shown):
    columns = {column.title: column for column in written.board.columns}
    for across, up in itertools.product(("arc acc", "hella acc"), ("Exposure, pooled", "HDT")):
        show.locator("#across").select_option(label=across)
        show.locator("#up").select_option(label=up)
        points = {}
        for entry in written.board.groups[0].entries:
            found = [(entry.figures.get(columns[title].key), columns[title].direction) for title in (across, up)]
            if all(each is not None and each.value is not None for each, _ in found):
                points[entry.run.name] = [each.value * (1 if better == "higher" else -1) for each, better in found]
        expected = {name for name, own in points.items() if not any(outdoes(other, own) for other in points.values())}
        assert set(show.locator("#trade .members strong").all_text_contents()) == expected
        assert show.locator("#trade .point").count() == len(points)


def test_plots_have_their_text(show: Any):
    show.locator("#run").select_option(label="a")
    plots = [str(plot.get_attribute("aria-label")) for plot in show.locator(".panels svg[role=img]").all()]
    assert len(plots) == 2
    assert "planted never (controls): 10 canaries, median" in plots[0]
    assert "planted never (controls): 0 of 10, 0.00 [0.00, 0.308]" in plots[1]


def test_every_canary_has_its_dot(show: Any):
    show.locator("#run").select_option(label="a")
    exposures = show.locator(".panels svg[role=img]").first
    assert (exposures.locator(".control").count(), exposures.locator(".faint").count()) == (10, 30)


def test_a_group_offers_the_axes_that_it_has_figures_for(show: Any, written: Shown):
    assert "hella acc" in show.locator("#across option").all_text_contents()
    group = [group.entries[0].run.name for group in written.board.groups].index(Shown.NASTY)
    show.locator("#trade-group").select_option(str(group))
    assert show.locator("#across option").all_text_contents() == ["arc acc"]
    assert show.locator("#trade .point").count() == 1


def test_a_run_shows_its_audit_with_what_it_means(show: Any):
    heading = show.get_by_role("heading", name="Audit with controls")
    assert heading.is_visible()
    listed = show.locator(".audit")
    assert listed.locator("dt").first.text_content() == "Membership AUC"
    assert "0.500 without a leak" in listed.locator("dd").first.text_content()
