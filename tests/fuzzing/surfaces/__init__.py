"""Everything that reads what others wrote: one module a surface, with a ``make`` that writes one input."""

from __future__ import annotations

SHARES = {
    "manifests": 18,
    "templates": 16,
    "options": 16,
    "training_logs": 12,
    "pairs": 10,
    "samples": 8,
    "results": 6,
    "datasets": 6,
    "sidecars": 6,
    "prompts": 6,
    "cards": 4,
    "tables": 3,
    "tokenizers": 3,
    "commands": 1,
}
"""How the inputs are dealt out: more to what is read fast."""
