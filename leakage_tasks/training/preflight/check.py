"""Check of every row of the training data: copies of canaries, and the tokens of their secrets in the loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from tqdm import tqdm
from transformers import Trainer

from leakage_tasks.canaries import Canary, manifest_hash, read_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.training.callback.target import preserved_training_state
from leakage_tasks.training.preflight.copies import (
    Copy,
    CopyFinder,
    Edges,
    Spelling,
    unchanged_text,
    without_space_and_case,
)
from leakage_tasks.training.preflight.counts import CanaryCounts
from leakage_tasks.training.preflight.probes import (
    example_starts,
    gradient_reaches,
    packed_read_each_other,
    trained_share,
)
from leakage_tasks.training.preflight.report import Preflight
from leakage_tasks.training.preflight.rows import (
    BatchRow,
    Detokenizer,
    Walk,
    preserved_random_state,
    rows_of,
    walk_through,
)
from leakage_tasks.training.preflight.turns import PlantedRows, planted_rows
from leakage_tasks.training.sharding import sharding_of


def preflight(
    trainer: Trainer | Callable[[], Trainer],
    canaries: str | Path | Sequence[Canary],
    *,
    rows: int | None = None,
    tokenizer: Any = None,
    seed: int = 0,
) -> Preflight:
    """Check the data of a ``Trainer`` before training: which copies of canaries the model will read and learn.

    The data are read in order, after the trainer's own template, packing and collator. Weights, gradients and random
    states do not change.

    Args:
        trainer: The trainer, or a function that makes it, which is called after the other arguments are checked.
        canaries: The path of a manifest, or canaries.
        rows: Number of rows to check, drawn with ``seed``; by default all rows.
        tokenizer: Tokenizer to use instead of the trainer's ``processing_class``.

    Returns:
        The copies of each canary, and problems.

    Raises:
        OptionError: The trainer has no data or tokenizer, or its batches are not batches of a language model.
        ManifestError: The manifest cannot be read.
    """
    if rows is not None and rows < 1:
        raise OptionError(f"rows is {rows}: give the number of rows to check, 1 or more, or leave it out for all")
    wanted = list(canaries) if not isinstance(canaries, str | Path) else read_manifest(canaries)
    trainer = trainer() if callable(trainer) else trainer
    processing = tokenizer if tokenizer is not None else trainer.processing_class
    text_tokenizer = getattr(processing, "tokenizer", processing)
    if text_tokenizer is None:
        raise OptionError("preflight: the trainer has no tokenizer: pass Trainer(processing_class=…)")
    with preserved_random_state():
        check = _DataCheck(
            trainer,
            wanted,
            text_tokenizer,
            walk_through(trainer, rows, seed),
            planted_rows(canaries, wanted, text_tokenizer),
        )
        for number, batch in check.walk.batches():
            check.at(batch, number)
        return check.report()


@dataclass
class _CanaryCopies:
    """Copies of one canary found so far. ``heads`` and ``tails`` are parts of copies that were cut."""

    whole: int = 0
    heads: int = 0
    tails: int = 0
    lone_tails: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    shares: list[float] = field(default_factory=list)
    sides: Counter[str] = field(default_factory=Counter)
    reached: bool | None = None


class _DataCheck:
    """A check of a trainer's data."""

    def __init__(
        self, trainer: Trainer, canaries: Sequence[Canary], tokenizer: Any, walk: Walk, planted: PlantedRows
    ) -> None:
        self.model = cast(Any, trainer.model)
        self.walk, self._canaries = walk, canaries
        self._encodes = bool(getattr(self.model.config, "is_encoder_decoder", False))
        self._decoder = Detokenizer(tokenizer)
        self._spelling = _spelling(tokenizer, canaries)
        self._finder = CopyFinder(canaries, self._spelling)
        self._edges = Edges(tokenizer, self._spelling)
        # By text: canaries with equal texts cannot be distinguished.
        self._copies = {self._spelling(canary.text): _CanaryCopies() for canary in canaries}
        self._rows, self._longest_row = 0, 0
        self._mixed: bool | None = None
        self._beginnings = {name: self._spelling(text) for name, text in planted.beginnings.items()}
        self._other_turns = [self._spelling(text) for text in planted.others]
        self._as_in_audit: bool | None = None
        self._sharded = sharding_of(self.model)
        if self._sharded:
            log.warning(
                "preflight: the weights are sharded over processes (%s): only the data are checked, not if gradients "
                "reach the weights; 'leakage preflight' in one process checks both",
                self._sharded,
            )
        self._bar = tqdm(total=walk.rows, unit="row", desc="Preflight", leave=False)

    def at(self, batch: Mapping[str, Any], number: int) -> None:
        """Check a batch made from ``number`` rows of the data set."""
        rows = list(rows_of(batch, self._encodes))
        if self._mixed is None and not self._encodes and len(example_starts(batch)) > 1:
            self._mixed = self._probe(packed_read_each_other, batch)
        for row, text in zip(rows, self._decoder.texts([row.tokens for row in rows]), strict=True):
            spelled = self._spelling(text)
            self._longest_row = max(self._longest_row, len(spelled))
            for copy in self._finder.find(spelled):
                if copy.missing:
                    self._note_part(copy, batch, row, spelled)
                else:
                    self._note(copy, batch, row, text)
        # The last batch of a stream may have more rows than requested.
        count = number if self.walk.rows is None else min(number, self.walk.rows - self._rows)
        self._rows += count
        self._bar.update(count)

    def _note_part(self, copy: Copy, batch: Mapping[str, Any], row: BatchRow, spelled: str) -> None:
        copies = self._copies[self._spelling(copy.canary.text)]
        # Both rows of a preference pair contain its question.
        if row.pair == "rejected":
            return
        if not self._edges.cuts(copy, spelled, self._starts(batch, row)):
            copies.changed["bare" if copy.bare else "tail" if copy.tail else "head"] += 1
            return
        if copy.bare:
            # A piece without either end does not determine the number of copies.
            return
        copies.heads += not copy.tail
        copies.tails += copy.tail and not copy.other_end_is_short
        copies.lone_tails += copy.tail and copy.other_end_is_short

    def _starts(self, batch: Mapping[str, Any], row: BatchRow) -> list[int]:
        """Return the offsets, in the row's spelled text, at which packed examples begin, except the first example."""
        packed = example_starts(batch)[1:] if row.at == 0 and not self._encodes else []
        return [len(self._spelling(text)) for text in self._decoder.texts([row.tokens[:start] for start in packed])]

    def _note(self, copy: Copy, batch: Mapping[str, Any], row: BatchRow, text: str) -> None:
        copies = self._copies[self._spelling(copy.canary.text)]
        tokens = self._decoder.tokens(row.tokens, *self._span(text, copy))
        counted = np.zeros(len(row.tokens), bool)
        counted[tokens] = row.counted[tokens]
        share = float(row.counted[tokens].mean())
        if row.pair == "rejected" and not share:
            return
        begin = copy.start - len(self._spelling(copy.canary.space.pieces[0]))
        # Adjacent pieces of one text may be in examples that the model reads separately.
        if self._mixed is False and any(begin < start < copy.end for start in self._starts(batch, row)):
            copies.heads += 1
            return
        copies.whole += 1
        self._note_chat(copy, text)
        copies.shares.append(share)
        if row.pair and share:
            copies.sides[row.pair] += 1
        if share and not copies.reached and not self._encodes:
            copies.reached = self._probe(gradient_reaches, batch, row.at, self._padded(batch, row, counted))

    def _note_chat(self, copy: Copy, text: str) -> None:
        """Compare the text before a copy in a conversation with the text that an audit uses.

        The row must contain the other turns too, since the record of planting may belong to another data file.
        """
        beginning = self._beginnings.get(copy.canary.id)
        if beginning is None:
            return
        spelled = self._spelling(text)
        if all(turn in spelled for turn in self._other_turns):
            self._as_in_audit = bool(self._as_in_audit) or beginning in spelled

    def _probe(self, probe: Callable[..., bool | None], batch: Mapping[str, Any], *rest: Any) -> bool | None:
        """Run a probe of the model; return None if its weights are sharded. Raises OptionError if the model cannot read
        the batch."""
        if self._sharded:
            return None
        try:
            with preserved_training_state(self.model):
                return probe(self.model, batch, *rest)
        except Exception as error:
            raise OptionError(
                f"preflight: the model cannot read a batch of its training data ({type(error).__name__}: "
                f"{first_line(error)}): try a smaller max_length or per_device_train_batch_size"
            ) from error

    def _span(self, text: str, copy: Copy) -> tuple[int, int]:
        """Return the start and end, in the row's original text, of a secret that was found in the spelled text."""
        if self._spelling is unchanged_text:
            return copy.start, copy.end
        origin = [index for index, character in enumerate(text) for _ in self._spelling(character)]
        return origin[copy.start], origin[copy.end - 1] + 1

    @staticmethod
    def _padded(batch: Mapping[str, Any], row: BatchRow, counted: np.ndarray) -> np.ndarray:
        """Return ``counted`` for the whole width of the batch."""
        width = batch["input_ids"].shape[1]
        mask = batch.get("attention_mask")
        wide = np.zeros(width, bool)
        read = np.arange(width) if mask is None else np.flatnonzero(mask[row.at].cpu().numpy())
        wide[read] = counted
        return wide

    def report(self) -> Preflight:
        self._bar.close()
        counts = tuple(self._counts(canary) for canary in self._canaries)
        data = (self._rows, self.walk.total, manifest_hash(self._canaries))
        shortest = min((len(self._spelling(canary.text)) for canary in self._canaries if canary.planted), default=0)
        probes = self._mixed, self._as_in_audit, self._longest_row < shortest
        return Preflight(counts, *data, trained_share(self.model), *probes)

    def _counts(self, canary: Canary) -> CanaryCounts:
        copies = self._copies[self._spelling(canary.text)]
        return CanaryCounts(
            canary=canary.id,
            planted=canary.repetitions if canary.planted else 0,
            kind=canary.kind,
            whole=copies.whole,
            # If a copy is divided between two rows, both ends are found, unless one end is too short.
            cut=max(copies.heads, copies.tails) + copies.lone_tails,
            # If a copy was changed in its middle, both ends are found, and perhaps its secret.
            changed=max(copies.changed.values(), default=0),
            in_loss=sum(share == 1 for share in copies.shares),
            in_part=sum(0 < share < 1 for share in copies.shares),
            share=float(np.mean(copies.shares)) if copies.shares else 0.0,
            sides=dict(copies.sides),
            reached=copies.reached,
        )


def _spelling(tokenizer: Any, canaries: Sequence[Canary]) -> Spelling:
    """Return a normalization of texts under which the tokenizer preserves canaries. Raises OptionError if there is
    none."""
    ids = [tokenizer(canary.text)["input_ids"] for canary in canaries]
    texts = Detokenizer(tokenizer).texts([np.asarray(row, int) for row in ids])
    for spelling in (unchanged_text, without_space_and_case):
        lost = [
            canary for canary, text in zip(canaries, texts, strict=True) if spelling(canary.text) not in spelling(text)
        ]
        if not lost:
            return spelling
    raise OptionError(
        f"preflight: encoding and decoding changes the text of {lost[0].id} (the tokenizer does not know some "
        "characters, or changes more than their case), so this canary cannot be measured: use another alphabet or "
        "tokenizer"
    )
