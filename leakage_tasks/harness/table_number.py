"""A metric's value as the harness' table prints it."""

from __future__ import annotations


class TableNumber(float):
    """A value that the harness' table, which has four decimals, does not print as 0 unless it is 0.

    A p-value of 2e-5 is printed as ``<0.0001``. Results files hold the number itself.
    """

    def __format__(self, spec: str) -> str:
        text = super().__format__(spec)
        return "<0.0001" if self > 0 and text == "0.0000" else text
