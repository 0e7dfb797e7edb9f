"""Everything that reads what others wrote: one module a surface, with a ``make`` that writes one input."""

from __future__ import annotations

SHARES = {
    "manifests": 20,
    "templates": 15,
    "cards": 8,
}
"""How the inputs are dealt out: more to what is read fast."""
