"""Nats and bits."""

from __future__ import annotations

import math

LN2 = math.log(2)
"""Nats in a bit."""
