from __future__ import annotations

from typing import Any

import pytest

from tests.report.browsing import CONTRASTS, FOCUSED, Shown, opened


def names(shown: Any) -> list[str]:
    """The runs of the first group that show, from top to bottom."""
    return shown.locator("#board tbody").first.locator("tr:visible .run").all_text_contents()


def head(shown: Any, title: str) -> Any:
    """The head of a column."""
    return shown.locator("#board thead th[aria-sort]").filter(has=shown.locator(".title", has_text=title)).first


def test_sorts_by_a_column_both_ways_with_runs_that_lack_it_last(show: Any):
    column = head(show, "arc acc")
    column.locator("button").click()
    assert (names(show), column.get_attribute("aria-sort")) == (["b", "e", "c", "a", "d"], "ascending")
    column.locator("button").click()
    assert (names(show), column.get_attribute("aria-sort")) == (["a", "c", "e", "b", "d"], "descending")


def test_sorts_by_name_and_back_by_place(show: Any):
    before = names(show)
    head(show, "Run").locator("button").click()
    assert names(show) == ["a", "b", "c", "d", "e"]
    head(show, "Place").locator("button").click()
    assert names(show) == before
    assert show.locator("#board thead [aria-sort=ascending]").count() == 1


def test_every_column_has_a_button_to_sort_by(show: Any, written: Shown):
    show.locator("#every").check()
    buttons = show.locator("#board thead th button.sort")
    assert buttons.count() == len(written.board.columns) + 2
    assert all(button.is_visible() for button in buttons.all())


def test_finds_runs_by_text(show: Any):
    show.locator("#find").fill("models/c HF")
    assert show.locator("#board tbody tr:visible .run").all_text_contents() == ["c"]
    assert show.locator("#found").text_content() == "1 of 7 runs shown"
    show.locator("#find").fill("")
    assert len(names(show)) == 5


def test_filters_by_kind_of_model(show: Any):
    show.locator("#kind").select_option(Shown.KIND)
    assert show.locator("#board tbody tr:visible .run").all_text_contents() == [Shown.NASTY]


def test_a_checkbox_shows_all_columns(show: Any, written: Shown):
    heads = show.locator("#board thead th[aria-sort]:visible")
    assert heads.count() == sum(column.shown for column in written.board.columns) + 2
    show.locator("#every").check()
    assert heads.count() == len(written.board.columns) + 2


@pytest.mark.parametrize("every", [False, True])
def test_bands_stand_over_their_columns(show: Any, every: bool):
    show.locator("#every").set_checked(every)
    band = show.locator("#board .bands:visible th", has_text="Usefulness").bounding_box()
    first = head(show, "arc acc").bounding_box()
    assert band["x"] == pytest.approx(first["x"], abs=1)


def test_a_column_is_explained_where_its_head_has_the_focus(show: Any):
    head(show, "Exposure, pooled").locator("button").focus()
    show.keyboard.press("Tab")
    assert "bits of the secret that the model reveals" in show.locator("#tip").inner_text()
    show.keyboard.press("Escape")
    assert show.locator("#tip").is_hidden()
    show.keyboard.press("Enter")
    assert "Exposure, pooled" in show.locator("#columns :target dt").text_content()


def test_text_from_results_stays_text(show: Any, written: Shown):
    show.locator("#run").select_option(label=Shown.NASTY)
    show.locator("details.case:visible summary").first.click()
    assert show.locator(".case:visible .id").first.text_content() == Shown.NASTY
    assert Shown.KIND in show.locator("#one .facts:visible").first.text_content()
    group = 1 + [group.entries[0].run.name for group in written.board.groups].index(Shown.NASTY)
    show.locator("#view").select_option(label=f"Group {group}: arc acc against Exposure, planted once")
    assert show.locator("#trade tbody th:visible").all_text_contents() == [Shown.NASTY]
    assert show.locator("img:not(.plot)").count() == 0


def test_the_policy_stops_scripts_that_are_not_ours(browser: Any, written: Shown):
    context = browser.new_context()
    shown = context.new_page()
    shown.goto(written.path.as_uri())
    code = "const it = document.createElement('script'); it.text = 'hacked = 1'; document.body.append(it)"
    shown.evaluate(f"() => {{ {code} }}")
    assert shown.evaluate("typeof hacked") == "undefined"
    context.close()


def test_the_keyboard_alone_sorts_and_opens_a_canary(show: Any):
    show.keyboard.press("Tab")
    assert show.evaluate("document.activeElement.className") == "skip"
    show.keyboard.press("Enter")
    assert tabbed(show, "document.activeElement.textContent.startsWith('Exposure, pooled')")
    show.keyboard.press("Enter")
    assert head(show, "Exposure, pooled").get_attribute("aria-sort") == "ascending"
    assert tabbed(show, "document.activeElement.id === 'view'")
    before = show.locator("#trade .plot:visible").get_attribute("alt")
    show.keyboard.press("ArrowDown")
    assert show.locator("#trade .plot:visible").get_attribute("alt") != before
    assert tabbed(show, "document.activeElement.matches('.case > summary')")
    show.keyboard.press("Enter")
    show.locator("details.case[open] .guesses").wait_for()


def tabbed(shown: Any, there: str) -> bool:
    """Go on with the Tab key until it is ``there``; each stop must show that it has the focus."""
    for _ in range(80):
        shown.keyboard.press("Tab")
        assert shown.evaluate(FOCUSED)
        if shown.evaluate(there):
            return True
    return False


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_a_small_screen(browser: Any, written: Shown, width: int):
    with opened(browser, written.path, viewport={"width": width, "height": 740}) as shown:
        shown.locator("#every").check()
        for run in range(7):
            shown.locator("#run").select_option(str(run))
            if shown.locator("details.case:visible").count():
                shown.locator("details.case:visible summary").first.click()
            assert shown.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Any, written: Shown, scheme: str):
    with opened(browser, written.path, color_scheme=scheme) as shown:
        shown.locator("details.case:visible summary").first.click()
        shown.locator("#every").check()
        ratios = shown.evaluate(CONTRASTS)
        assert len(ratios) > 500
        assert ratios[0][0] >= 4.5, ratios[:5]
        dark = shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
        assert dark is (scheme == "dark")


def test_without_javascript_there_are_the_table_and_the_figures(browser: Any, written: Shown):
    with opened(browser, written.path, java_script_enabled=False) as shown:
        assert names(shown) == [entry.run.name for entry in written.board.groups[0].entries]
        assert shown.locator("#trade .plot").count() == shown.locator("#trade .plot:visible").count() > 1
        assert shown.locator("#one h3.no-js:visible").count() == len(written.board.entries)
        assert shown.locator("#find").is_hidden()
        shown.locator("#every").check()
        assert shown.locator("#board thead th", has_text="control_exposure_max").is_visible()
