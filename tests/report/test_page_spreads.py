from __future__ import annotations

from scipy import stats

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.report.load.format import number
from leakage_tasks.report.page.spreads import describe_spread, exposure_table, extraction_table
from leakage_tasks.report.plots.repetitions import by_repetitions, draw_repetitions


def ranked(name: int, rank: float | None, times: int = 1, **fields: object) -> Finding:
    named = {"canary": str(name), "planted": times > 0, "repetitions": times, "kind": "random", "log2_size": 20.0}
    return Finding(**{"attack": "exposure", "rank": rank, **named, **fields})


def guessed(name: int, hit: bool, times: int = 1) -> Finding:
    return ranked(name, None, times, attack="greedy", correct=(hit,))


def test_rows_are_by_repetitions_with_controls_first():
    run = by_repetitions("one", [ranked(1, 4.0, 10), ranked(2, 8.0, 0), ranked(3, 2.0, 1), ranked(4, 16.0, 10)], [])
    assert [(row[0], row[1], row[4]) for row in exposure_table(run).rows] == [
        ("never (controls)", "1", "17.0"),
        ("once", "1", "19.0"),
        ("10 times", "2", "17.0"),
    ]


def test_a_row_has_the_quartiles_of_all_its_canaries():
    run = by_repetitions("one", [ranked(each, 2.0 ** (each / 1000)) for each in range(10_001)], [])
    ((_, count, *told),) = exposure_table(run).rows
    assert (count, told) == ("10,001", [number(20 - bits) for bits in (10.0, 7.5, 5.0, 2.5, 0.0)])


def test_a_control_is_a_control_however_often_its_twin_was_planted():
    run = by_repetitions("one", [ranked(1, 4.0, 9, planted=False)], [])
    assert [point.repetitions for point in run.exposures] == [0]


def test_natural_secrets_have_groups_of_their_own():
    twin = ranked(1, 4.0, 0, kind="natural")
    run = by_repetitions("one", [ranked(2, 8.0, 7, kind="natural"), twin, ranked(3, 2.0, 7), ranked(4, 2.0, 0)], [])
    rows = exposure_table(run).rows
    assert [row[0] for row in rows] == ["never (controls of natural)", "natural", "never (controls)", "7 times"]
    ticks = [tick.get_text().rpartition("\n")[0] for tick in draw_repetitions([run]).axes[0].get_xticklabels()]
    assert ticks == ["natural,\ncontrols", "natural", "0 (never)", "7"]


def test_bounds_are_told_from_ranks():
    run = by_repetitions("one", [ranked(1, 4.0, method="lower_bound"), ranked(2, 2.0, method="exact")], [])
    assert [point.bound for point in run.exposures] == [True, False]


def test_quartiles_over_lower_bounds_are_lower_bounds():
    """Exposures of 2, 4, 6, 8 and 10 bits: one of at least 6 bits may be any of the three largest, but no smaller."""
    findings = [
        ranked(bits, 2.0 ** (20 - bits), method="lower_bound" if bits == 6 else "exact") for bits in range(2, 11, 2)
    ]
    spread = describe_spread(by_repetitions("one", findings, []), drawn=False)
    assert spread is not None
    assert spread["tables"][0].rows == [["once", "5", "2.00", "4.00", "≥ 6.00", "≥ 8.00", "≥ 10.0"]]
    assert spread["alt"].endswith("planted once: 5 canaries, median ≥ 6.00 bits")


def test_without_a_value_there_is_nothing():
    assert describe_spread(by_repetitions("one", [ranked(1, None)], []), drawn=True) is None


def test_a_run_of_extraction_alone_is_drawn_with_its_table():
    spread = describe_spread(by_repetitions("one", [], [guessed(1, True)]), drawn=True)
    assert spread is not None
    assert spread["figure"].startswith("data:image/svg+xml;base64,")
    assert spread["alt"].endswith("planted once: 1 of 1 extracted, 1.00 [0.025, 1.00]")
    assert [table.caption for table in spread["tables"]] == ["Canaries extracted, by number of copies"]


def test_shares_extracted_have_clopper_pearson_intervals():
    canaries = [guessed(each, each < 3, 4) for each in range(10)] + [guessed(11, False, 0)]
    control, planted = extraction_table(by_repetitions("one", [], canaries)).rows
    assert control[:3] == ["never (controls)", "0", "1"]
    low, high = stats.beta.ppf(0.025, 3, 8), stats.beta.ppf(0.975, 4, 7)
    assert planted == ["4 times", "3", "10", f"{number(0.3)} [{number(low)}, {number(high)}]"]
