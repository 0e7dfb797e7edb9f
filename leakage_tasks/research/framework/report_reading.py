"""Loading of a study's report from JSON."""

from __future__ import annotations

from typing import Any

from leakage_tasks.research.framework.report import Cell, Claim, Measured, Published, Report


def report_from_json(data: dict[str, Any]) -> Report:
    """Return the report that :meth:`Report.to_json` wrote. Raises TypeError, ValueError or KeyError for other data."""
    columns, rows, claims = (expect(list, data[name]) for name in ("columns", "rows", "claims"))
    return Report(
        [expect(str, name) for name in columns],
        [{name: _cell(cell) for name, cell in expect(dict, row).items()} for row in rows],
        [_claim(expect(dict, item)) for item in claims],
        [expect(str, item) for item in expect(list, data["differences"])],
    )


def _cell(value: Any) -> Cell:
    if isinstance(value, dict):
        if "published" in value:
            return Published(expect(float | int | str | None, value["published"]))
        return Measured(**{name: expect(float | int | None, number) for name, number in value.items()})
    return expect(float | int | str | None, value)


def _claim(value: dict[str, Any]) -> Claim:
    claim = Claim(**value)
    for text in (claim.words, claim.evidence, claim.takes):
        expect(str, text)
    expect(bool | None, claim.holds)
    expect(float | int | None, claim.p)
    return claim


def expect(kind: Any, value: Any) -> Any:
    """Return the value. Raises TypeError if it is not of the given kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not of type {kind}")
    return value
