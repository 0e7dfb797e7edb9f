from __future__ import annotations

from typing import Any

from tests.report.browsing import Shown


def test_a_canary_shows_its_right_slots(show: Any):
    show.locator("#run").select_option(label="a")
    case = show.locator("details.case:visible").first
    case.locator("summary").click()
    secret = str(case.locator(".secret code").text_content()).split()
    guess = case.locator(".guesses li").first
    slots = str(guess.locator("code").text_content()).split()
    right = [number for number, (left, true) in enumerate(zip(slots, secret, strict=True), 1) if left == true]
    assert " ".join(guess.locator("b").all_text_contents()).split() == [slots[number - 1] for number in right]
    assert len(right) > 1
    assert guess.locator(".unseen").text_content() == f"right slots: {', '.join(map(str, right))}, "


def test_right_slots_differ_in_more_than_colour(show: Any):
    show.locator("details.case:visible summary").first.click()
    look = "node => { const style = getComputedStyle(node); return [style.fontWeight, style.borderBottomStyle]; }"
    right = show.locator(".guesses b:visible").first.evaluate(look)
    wrong = show.locator(".guesses code:visible").first.evaluate(look)
    assert (right, wrong) == (["700", "solid"], ["400", "none"])


def test_only_the_chosen_run_shows_and_its_canaries_are_closed(show: Any):
    assert show.locator("details.case:visible").count() == 40
    assert show.locator(".case-body:visible").count() == 0


def test_long_lists_are_shown_in_parts(show: Any):
    show.locator("#run").select_option(label="pairs")
    rows = show.locator(".pairs tbody tr:visible")
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
    chosen = show.locator("#view option").all_text_contents()
    ours = [words.removeprefix("Group 1: ").split(" against ") for words in chosen if words.startswith("Group 1: ")]
    assert {across for across, _ in ours} == {"arc acc", "hella acc"}
    for across, up in ours:
        show.locator("#view").select_option(label=f"Group 1: {across} against {up}")
        points = {}
        for entry in written.board.groups[0].entries:
            found = [(entry.figures.get(columns[title].key), columns[title].direction) for title in (across, up)]
            if all(each is not None and each.value is not None for each, _ in found):
                points[entry.run.name] = [each.value * (1 if better == "higher" else -1) for each, better in found]
        expected = {name for name, own in points.items() if not any(outdoes(other, own) for other in points.values())}
        rows = show.locator("#trade tbody tr:visible")
        assert rows.count() == len(points)
        front = rows.filter(has_text="on the front").locator("th").all_text_contents()
        assert set(front) == expected


def test_every_figure_is_drawn(show: Any):
    sizes = show.locator("img").evaluate_all("all => all.map((each) => [each.complete, each.naturalWidth])")
    assert len(sizes) > 5
    assert all(complete and width > 300 for complete, width in sizes)


def test_a_run_shows_its_audit_with_what_it_means(show: Any):
    heading = show.locator("h3:visible", has_text="Audit with controls")
    assert heading.is_visible()
    listed = show.locator(".audit:visible")
    assert listed.locator("dt").first.text_content() == "Membership AUC"
    assert "0.500 without a leak" in listed.locator("dd").first.text_content()
