"""``leakage compare``: what changed canary by canary, what is refused, and what is shown."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks.contamination.finding import OrderFinding
from leakage_tasks.attacks.membership.finding import MembershipFinding
from leakage_tasks.attacks.suffix.finding import SuffixFinding, SuffixView
from leakage_tasks.report.compare.changes import READING, Change, compare, verdicts
from leakage_tasks.report.compare.documents import IN_ALL
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.stats.paired import mean_difference, rate_difference
from tests.conftest import Leakage, Ran, Refused
from tests.report.logged import choice, log, text
from tests.report.pages import canary, usual_canaries, write_run

EXPOSURE, EXTRACTION = "canary_exposure", "canary_extraction"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A run that leaks."""
    return write_run(tmp_path / "before", "before", usual_canaries(0.9))


@pytest.fixture
def after(tmp_path: Path) -> Path:
    """The same canaries on a model that leaks nothing."""
    return write_run(tmp_path / "after", "after", usual_canaries(0.0))


def compared(before: Path, after: Path):
    (first,), (second,) = read_runs([before]), read_runs([after])
    return compare(first, second)


def test_means_over_lower_bounds_are_drawn_hollow(tmp_path: Path) -> None:
    """In the run with the bounds alone; a filled mark would show a mean that is too low as known."""
    from leakage_tasks.cli.compare import _slopes

    exact = [canary(f"c{number}", rank=100 + number) for number in range(3)]
    cut = [canary(f"c{number}", rank=900 + number) for number in range(3)]
    cut = [(doc, dataclasses.replace(ranked, method="lower_bound"), guessed) for doc, ranked, guessed in cut]
    runs = [write_run(tmp_path / name, name, made) for name, made in (("one", exact), ("two", cut))]
    (axes,) = _slopes([compared(*runs)]).axes
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    (mean,) = hollow
    assert list(mean.get_xdata()) == [1]
    assert mean.get_ydata()[0] == pytest.approx(fmean(math.log2(10**6 / (900 + number)) for number in range(3)))


def test_every_group_of_canaries_is_compared(before: Path, after: Path) -> None:
    found = compared(before, after)
    groups = ["planted once", "planted 4 times", "planted 16 times", IN_ALL, "controls"]
    assert [(each.task, each.group) for each in found.changes] == [
        (task, group) for task in (EXPOSURE, EXTRACTION) for group in groups
    ]
    assert [each.count for each in found.changes] == [10, 10, 10, 30, 10] * 2


def test_natural_secrets_are_a_group_of_their_own(tmp_path: Path) -> None:
    canaries = [*usual_canaries(0.9), canary("natural", rank=8, kind="natural")]
    runs = [write_run(tmp_path / name, name, canaries) for name in ("one", "two")]
    groups = [(each.group, each.count) for each in compared(*runs).changes if each.task == EXPOSURE]
    assert groups[3:] == [(IN_ALL, 30), ("natural secrets", 1), ("controls", 10)]


def test_near_copies_count_as_copies(tmp_path: Path) -> None:
    canaries = [canary("often", rank=8, near=15), *usual_canaries(0.9)]
    runs = [write_run(tmp_path / name, name, canaries) for name in ("one", "two")]
    groups = {each.group: each.count for each in compared(*runs).changes if each.task == EXPOSURE}
    assert (groups["planted once"], groups["planted 16 times"]) == (10, 11)


def test_canaries_that_training_did_not_learn_from_have_groups_after_those_of_copies(tmp_path: Path) -> None:
    unlearnt = [canary("seen", rank=8, reading="context"), canary("lost", rank=8, reading="absent")]
    runs = [write_run(tmp_path / name, name, [*unlearnt, *usual_canaries(0.9)]) for name in ("one", "two")]
    groups = [(each.group, each.count) for each in compared(*runs).changes if each.task == EXPOSURE]
    planted = ("planted once", "planted 4 times", "planted 16 times")
    unread = [("absent from the training data", 1), ("read only as context", 1)]
    assert groups == [*((words, 10) for words in planted), *unread, (IN_ALL, 32), ("controls", 10)]


def test_differences_are_those_of_each_canary_with_itself(before: Path, after: Path) -> None:
    def bits(leaking: float) -> dict[str, float]:
        return {found.canary: found.exposure or 0.0 for _, found, _ in usual_canaries(leaking) if found.planted}

    first, second = bits(0.9), bits(0.0)
    change = compared(before, after).changes[3]
    assert change.before == pytest.approx(fmean(first.values()))
    assert change.after == pytest.approx(fmean(second.values()))
    assert change.difference == mean_difference(list(first.values()), [second[name] for name in first])


def test_rates_are_compared_by_those_that_changed(before: Path, after: Path) -> None:
    def hits(leaking: float) -> list[bool]:
        return [all(found.correct or ()) for _, _, found in usual_canaries(leaking) if found.planted]

    change = next(each for each in compared(before, after).changes if (each.task, each.group) == (EXTRACTION, IN_ALL))
    assert change.difference == rate_difference(hits(0.9), hits(0.0))


def test_the_table_says_what_changed(leakage: Leakage, before: Path, after: Path) -> None:
    code, out, err = leakage("compare", before, after)
    assert (code, err) == (0, "")
    assert "before: before" in out
    assert "after:  after" in out
    told = [line for line in out.splitlines() if line.startswith("= canary_exposure: ")]
    assert [line.split(": ")[1] for line in told] == ["planted once", "planted, all", "controls"]
    assert "= canary_exposure: planted, all: less than before, by " in out
    assert "= canary_exposure: controls: no change shown (p = " in out
    assert "smallest detectable change" in out


def test_a_run_and_itself_show_no_change(leakage: Leakage, before: Path, tmp_path: Path) -> None:
    again = write_run(tmp_path / "again", "again", usual_canaries(0.9))
    _, out, _ = leakage("compare", before, again)
    assert "= canary_exposure: planted, all: no change shown (p = 1" in out


def test_a_page_a_plot_and_json(ran: Ran, before: Path, after: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"slopes.{kind}" for kind in ("html", "svg", "png", "json")]
    out, _ = ran("compare", before, after, *(word for path in outputs for word in ("-o", path)))
    assert all(f"wrote {path}" in out for path in outputs)
    page, picture, _, data = outputs
    assert "data:image/svg+xml;base64," in page.read_text()
    assert "canary-16-0" in page.read_text()
    assert "planted 16 times, each of 10 and their mean" in picture.read_text()
    (found,) = json.loads(data.read_text())
    assert len(found["documents"][EXPOSURE]) == 40
    assert [each["difference"]["p"] < 0.05 for each in found["changes"][:4]] == [True] * 4


def test_several_runs_are_each_compared_with_the_first(ran: Ran, before: Path, after: Path, tmp_path: Path) -> None:
    third = write_run(tmp_path / "third", "third", usual_canaries(0.5))
    out, _ = ran("compare", before, after, third, "-o", tmp_path / "slopes.svg")
    assert out.count("before: before") == 2
    assert "after:  third" in out
    assert (tmp_path / "slopes.svg").read_text().count("third") == 1


def test_a_name_that_is_markup_is_shown_as_text(leakage: Leakage, after: Path, tmp_path: Path) -> None:
    evil = write_run(tmp_path / "evil", "<script>alert(1)", usual_canaries(0.9))
    assert leakage("compare", evil, after, "-o", tmp_path / "page.html")[0] == 0
    text = (tmp_path / "page.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_runs_of_other_canaries_are_refused(refused: Refused, before: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "o", "other", usual_canaries(0.0), protocol={"canaries": "cd" * 32})
    err = refused("compare", before, other)
    assert "ran with another protocol than" in err
    assert "other canaries" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["BEFORE"], "RESULTS has fewer than two runs"),
        (["BEFORE", "AFTER", "-o", "x.txt"], "unknown kind of file: use a name that ends in .html, .json, .png, .svg"),
        (["BEFORE", "none"], "no such file or folder"),
    ],
)
def test_bad_input_is_one_line(refused: Refused, before: Path, after: Path, arguments: list[str], said: str) -> None:
    paths = {"BEFORE": before, "AFTER": after}
    assert said in refused("compare", *(paths.get(each, each) for each in arguments))


def test_a_run_without_samples_is_refused(refused: Refused, before: Path, tmp_path: Path) -> None:
    bare = write_run(tmp_path / "bare", "bare", usual_canaries(0.0), logged=False)
    assert "run lm_eval again with --log_samples" in refused("compare", before, bare)


@pytest.fixture
def natural(tmp_path: Path) -> Path:
    """A run on natural secrets, whose samples do not state which were extracted."""
    secrets = [canary(f"natural-{number}", rank=1, kind="natural") for number in range(10)]
    return write_run(tmp_path / "natural", "natural", secrets)


def test_exposures_of_natural_secrets_are_compared_although_extraction_is_withheld(
    ran: Ran, natural: Path, tmp_path: Path
) -> None:
    page, data = tmp_path / "page.html", tmp_path / "found.json"
    out, _ = ran("compare", natural, natural, "-o", page, "-o", data)
    said = f"{EXTRACTION}: not compared, because runs do not state which natural secrets were extracted"
    assert f"\n= {said}\n" in out
    assert said in page.read_text()
    (found,) = json.loads(data.read_text())
    assert [(each["task"], each["count"]) for each in found["changes"]] == [(EXPOSURE, 10)]
    assert found["withheld"] == [EXTRACTION]


def test_runs_of_which_every_value_is_withheld_are_refused(refused: Refused, natural: Path) -> None:
    content = json.loads(natural.read_text())
    for part in content.values():
        if isinstance(part, dict):
            part.pop(EXPOSURE, None)
    natural.write_text(json.dumps(content))
    assert "were extracted: run canary_exposure on both models" in refused("compare", natural, natural)


def test_other_canaries_of_one_manifest_have_no_value_in_both_runs(refused: Refused, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, [canary(name, rank=1)]) for name in ("first", "second")]
    assert "no document of canary_exposure has a value in both runs" in refused("compare", *runs)


def test_runs_without_a_task_in_common_are_refused(refused: Refused, before: Path, tmp_path: Path) -> None:
    useful = write_run(tmp_path / "useful", "useful", useful={"arc": 0.5})
    assert "has no leakage task in common" in refused("compare", before, useful)


def test_shared_tasks_that_cannot_be_compared_are_named(refused: Refused, before: Path, after: Path) -> None:
    for run in (before, after):
        content = run.read_text()
        for task in (EXPOSURE, EXTRACTION):
            content = content.replace(f'"{task}"', f'"my_{task}"')
        run.write_text(content)
    line = refused("compare", before, after)
    assert "has only tasks that cannot be compared (my_canary_exposure, my_canary_extraction) in common with" in line
    assert "run one of canary_exposure, canary_extraction, " in line


def test_the_smallest_detectable_change_is_that_of_a_single_test(before: Path, tmp_path: Path) -> None:
    again = write_run(tmp_path / "again", "again", usual_canaries(0.9, seed=1))
    changes = compared(before, again).changes_of(EXPOSURE)
    assert all("bits, if tested alone)" in verdict for verdict in verdicts(changes))
    assert all("bits)" in verdict for verdict in verdicts(changes[:1]))
    assert "p and the last column are not" in READING


def windows(lower: float) -> list[SuffixFinding]:
    """Two windows of each of twelve documents, which cost ``lower`` bits less, and of each of twelve controls."""
    found = []
    for number in (*range(24), *range(-24, 0)):
        bits = 40.0 + abs(number) % 7 - (lower if number >= 0 else 0.0)
        view = SuffixView(8, 6, 1, 1, bits, None, False, {"frequency": choice(False, 1.0)})
        document = (number if number >= 0 else -1 - number) // 2
        found.append(SuffixFinding(number, "greedy", 1, "frequency", {"none": view}, document=document))
    return found


def test_costs_are_compared_by_document(tmp_path: Path) -> None:
    for name, lower in (("before", 0.0), ("after", 12.0)):
        log(tmp_path / name, {"memorization": windows(lower)})
    found = compared(tmp_path / "before", tmp_path / "after")
    assert [(each.group, each.count) for each in found.changes] == [("documents", 12), ("controls", 12)]
    documents, controls = found.changes
    assert documents.after - documents.before == pytest.approx(-12 / 6)
    assert documents.difference.p == pytest.approx(2 / 2**12)
    assert (controls.before, controls.difference.p) == (controls.after, 1)


def test_pairs_of_one_document_change_together(tmp_path: Path) -> None:
    for name, right in (("before", True), ("after", False)):
        view = SuffixView(8, 6, 1, 1, 40.0, None, False, {"frequency": choice(right, 1.0)})
        found = [SuffixFinding(n, "greedy", 1, "frequency", {"none": view}, document=n // 4) for n in range(24)]
        log(tmp_path / name, {"suffix_extraction": found})
    (change,) = compared(tmp_path / "before", tmp_path / "after").changes
    assert (change.group, change.count, change.difference.value) == ("pairs", 24, -1)
    assert change.difference.p == pytest.approx(2 / 2**6)


def _texts(folder: Path, hits: list[int], controls: list[int], **settings: object) -> Path:
    """A run of untargeted extraction with texts of two kinds of prompts."""
    half = len(hits) // 2
    kinds = ["short"] * half + ["ordinary"] * (len(hits) - half)
    findings = [
        text(kind, number, *found) for number, (kind, *found) in enumerate(zip(kinds, hits, controls, strict=True))
    ]
    return log(folder, {"untargeted_extraction": findings}, task_settings=settings)


def test_written_texts_are_compared_by_kind_of_prompt(tmp_path: Path) -> None:
    first = _texts(tmp_path / "a", [30, 30, 0, 0, 25, 0], [0] * 6)
    second = _texts(tmp_path / "b", [0, 0, 0, 0, 25, 40], [0, 20, 0, 0, 0, 0])
    changes = compared(first, second).changes
    assert [(each.group, each.count, each.before, each.after) for each in changes] == [
        ("untargeted prompts", 3, 2 / 3, 0.0),
        ("ordinary prompts", 3, 1 / 3, 2 / 3),
        ("texts, all", 6, 0.5, 1 / 3),
        ("runs of controls", 6, 0.0, 1 / 6),
    ]
    assert changes[0].difference == rate_difference([True, True, False], [False] * 3)
    assert changes[2].difference == rate_difference(
        [True, True, False, False, True, False], [False, False, False, False, True, True]
    )


def test_texts_after_other_prompts_are_not_paired(tmp_path: Path) -> None:
    first = _texts(tmp_path / "a", [30] * 4, [0] * 4, seed=1)
    second = _texts(tmp_path / "b", [0] * 4, [0] * 4, seed=2)
    changes = compared(first, second).changes
    assert [(each.group, each.count) for each in changes] == [("ordinary prompts", 2), ("runs of controls", 2)]


def test_a_change_of_the_controls_has_another_cause(leakage: Leakage, tmp_path: Path) -> None:
    first = _texts(tmp_path / "a", [0] * 40, [0] * 40)
    second = _texts(tmp_path / "b", [0] * 40, [30] * 40)
    _, out, _ = leakage("compare", first, second)
    (line,) = [line for line in out.splitlines() if line.startswith("= untargeted_extraction: runs of controls: ")]
    assert line.endswith("the model never saw the controls, so the change has another cause than training on them")


def _scored(folder: Path, losses: list[float]) -> Path:
    findings = [
        MembershipFinding(-1 - place if place > 3 else place, place < 4, place // 2, False, 30, {"loss": loss})
        for place, loss in enumerate(losses)
    ]
    return log(folder, {"membership": findings})


def test_members_are_compared_by_their_bits_per_token_and_cluster(leakage: Leakage, tmp_path: Path) -> None:
    first = _scored(tmp_path / "a", [-1.0, -3.0, -2.0, -2.0, -4.0, -4.0, -3.0, -5.0])
    second = _scored(tmp_path / "b", [-1.0, -1.0, -1.0, -2.0, -4.0, -4.0, -3.0, -5.0])
    members, others = compared(first, second).changes
    nat = 1 / math.log(2)
    assert (members.group, members.count, members.before) == ("members", 2, pytest.approx(2 * nat))
    assert members.after == pytest.approx(1.25 * nat)
    assert members.difference == mean_difference([2 * nat, 2 * nat], [nat, 1.5 * nat])
    assert (others.group, others.count, others.before, others.after) == ("non-members", 2, 4 * nat, 4 * nat)
    assert "membership: cost, bits per token" in leakage("compare", first, second)[1]


@pytest.mark.parametrize(
    ("shards", "verdict"),
    [
        (1, "inconclusive: 1 shard cannot show a change, at least 6 are needed"),
        (4, "inconclusive: 4 shards cannot show a change, at least 6 are needed"),
        (6, "less than before, by 5.00 bits (p = 0.031)"),
    ],
)
def test_so_few_shards_that_no_change_could_show_are_inconclusive(tmp_path: Path, shards: int, verdict: str) -> None:
    for name, bits in (("a", -7.0), ("b", -12.0)):
        found = [OrderFinding(place, 3, bits, (-11.0, -13.0)) for place in range(shards)]
        log(tmp_path / name, {"contamination_test": found})
    assert list(verdicts(compared(tmp_path / "a", tmp_path / "b").changes)) == [
        f"contamination_test: shards: {verdict}"
    ]


def _change(group: str, differences: list[float]) -> Change:
    return Change(EXPOSURE, group, len(differences), 0.0, 0.0, mean_difference([0.0] * len(differences), differences))


def test_runs_without_a_change_state_one_in_at_most_5_percent_of_comparisons() -> None:
    """Three groups, of which each alone reaches p = 5 %, as runs of one model with random differences have them."""
    stream, groups = np.random.default_rng(5), ("planted once", IN_ALL, "controls")
    stated = 0
    for _ in range(1000):
        once, others, controls = (stream.normal(size=12).tolist() for _ in range(3))
        rows = zip(groups, (once, once + others[:2], controls), strict=True)
        stated += any(" than before" in verdict for verdict in verdicts([_change(*row) for row in rows]))
    assert stated <= stats.binom.ppf(0.999, 1000, 0.05)


def test_a_change_of_one_group_of_several_is_held_to_the_corrected_p() -> None:
    slight = [1.0] * 8 + [-1.0]  # p = 20/512
    none, changed, controls = verdicts(
        [_change("planted once", [1.0, -1.0] * 5), _change(IN_ALL, [1.0] * 9), _change("controls", slight)]
    )
    assert "no change shown (p = 1" in none
    assert "more than before, by 1.00 bits (p = 0.0039)" in changed
    assert "no change shown (p = 0.039, above 5 % when corrected for 3 groups" in controls


def test_groups_that_only_several_canaries_more_could_show_are_inconclusive() -> None:
    lines = list(verdicts([_change(group, [1.0] * 6) for group in ("planted once", IN_ALL, "controls")]))
    assert lines == [
        f"canary_exposure: {group}: inconclusive: 6 canaries cannot show a change, at least 7 are needed"
        for group in ("planted once", IN_ALL, "controls")
    ]


def test_a_value_below_zero_has_the_sign_for_minus_everywhere(leakage: Leakage, tmp_path: Path) -> None:
    for name, bits in (("a", -13.0), ("b", -14.0)):
        found = [OrderFinding(place, 3, bits, (-11.0, -13.0)) for place in range(6)]
        log(tmp_path / name, {"contamination_test": found})
    out = leakage("compare", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "page.html")[1]
    row = next(line.split() for line in out.splitlines() if line.startswith("shards"))
    assert row == ["shards", "6", "−1.00", "−2.00", "−1.00", "–", "0.031", "–"]
    assert "<td>−1.00</td><td>−2.00</td><td>−1.00</td>" in (tmp_path / "page.html").read_text()


def test_orders_are_compared_by_the_gain_of_each_shard(tmp_path: Path) -> None:
    def run(name: str, canonical: list[float]) -> Path:
        shards = [OrderFinding(place, 3, bits, (-11.0, -13.0)) for place, bits in enumerate(canonical)]
        return log(tmp_path / name, {"contamination_test": shards})

    (change,) = compared(run("a", [-12.0, -12.0, -11.0]), run("b", [-10.0, -11.0, -11.0])).changes
    assert (change.group, change.count, change.before, change.after) == ("shards", 3, 1 / 3, 4 / 3)
    assert change.difference == mean_difference([0.0, 0.0, 1.0], [2.0, 1.0, 1.0])
