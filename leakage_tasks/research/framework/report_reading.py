"""A study's report as it was written, read again."""

from __future__ import annotations

from typing import Any

from leakage_tasks.research.framework.report import Cell, Claim, Measured, Published, Report


def report_from_json(data: dict[str, Any]) -> Report:
    """What :meth:`Report.to_json` wrote. Raises TypeError, ValueError or KeyError for anything else."""
    columns, rows, claims = (expect(list, data[name]) for name in ("columns", "rows", "claims"))
    return Report(
        [expect(str, name) for name in columns],
        [{name: _cell(cell) for name, cell in expect(dict, row).items()} for row in rows],
        [_claim(expect(dict, each)) for each in claims],
        [expect(str, each) for each in expect(list, data["differences"])],
    )


def _cell(value: Any) -> Cell:
    if isinstance(value, dict):
        if "published" in value:
            return Published(expect(float | int | str | None, value["published"]))
        return Measured(**{name: expect(float | int | None, number) for name, number in value.items()})
    return expect(float | int | str | None, value)


def _claim(value: dict[str, Any]) -> Claim:
    found = Claim(**value)
    for text in (found.words, found.evidence, found.takes):
        expect(str, text)
    expect(bool | None, found.holds)
    expect(float | int | None, found.p)
    return found


def expect(kind: Any, value: Any) -> Any:
    """The value. Raises TypeError unless it is of a kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind}")
    return value
