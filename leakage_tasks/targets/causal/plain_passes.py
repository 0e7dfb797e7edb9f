"""Plain forward passes over whole texts, with which faster passes are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.log import log
from leakage_tasks.targets.causal.text_table import TextTable
from leakage_tasks.targets.rounding import SAME_NATS, SAME_SHARE, explains

CHECKED = 4
"""Number of rows of a pass that are compared with plain passes."""


class PlainPasses(TextTable):
    """A table of texts whose ``reader`` can read each text again from its first token."""

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self._reader = reader

    def _is_plain(self, logits: Tensor, rows: IntArray, tokens: IntArray, lengths: IntArray) -> bool:
        """Compare some rows of a pass, the shortest and longest texts among them, with plain passes."""
        before = self.tree.lengths[rows]
        order = np.lexsort((np.arange(len(rows)), lengths, before))
        chosen = order[np.linspace(0, len(rows) - 1, min(CHECKED, len(rows))).round().astype(np.int64)]
        fast, plain = [], []
        for place in np.unique(np.stack([before[chosen], lengths[chosen]], axis=1), axis=0):
            same = chosen[(before[chosen] == place[0]) & (lengths[chosen] == place[1])]
            texts = [[*self.tree.read_tokens(rows[n]), *tokens[n, : place[1]].tolist()] for n in same]
            plain.append(self._plain_logits(np.array(texts), rows[same], int(place[1])).flatten(0, 1))
            fast.append(logits[torch.from_numpy(same).to(logits.device), : place[1]].flatten(0, 1))
        return self.agree(torch.cat(fast), torch.cat(plain))

    def _plain_logits(self, texts: IntArray, rows: IntArray, keep: int) -> Tensor:
        """Return logits ``[n, keep, V]`` after the last tokens of whole texts ``[n, length]``."""
        reader = self._reader
        with reader.inference():
            logits: Tensor = reader.read(reader.on_device(texts), keep, self.sources_of(rows))
            return logits

    def agree(self, fast: Tensor, plain: Tensor) -> bool:
        """Return True if logits ``[n, V]`` of a pass equal plain ones up to rounding."""
        costs, expected = fast.log_softmax(-1), plain.log_softmax(-1)
        apart = (costs - expected).abs()
        # Compare by <=, so that NaN counts as a difference.
        within = bool((apart <= SAME_NATS + SAME_SHARE * expected.abs()).all())
        if within or explains(self._reader.noise, [fast], [plain]):
            return True
        log.debug("a pass is off by %s nats", float(apart.max()))
        return False
