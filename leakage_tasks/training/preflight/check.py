"""The look itself: every row of the training data, every copy in it, and whether the secret counts."""

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
from leakage_tasks.core.log import first_line
from leakage_tasks.training.callback.target import undisturbed
from leakage_tasks.training.preflight.copies import Copy, CopyFinder, Spelling, as_it_is, squeezed
from leakage_tasks.training.preflight.edges import Edges
from leakage_tasks.training.preflight.probes import (
    example_starts,
    gradient_reaches,
    packed_read_each_other,
    trained_share,
)
from leakage_tasks.training.preflight.report import CanaryCounts, Preflight
from leakage_tasks.training.preflight.rows import BatchRow, Detokenizer, rows_of
from leakage_tasks.training.preflight.turns import PlantedRows, planted_rows
from leakage_tasks.training.preflight.walk import Walk, own_random_numbers, walk_through


def preflight(
    trainer: Trainer,
    canaries: str | Path | Sequence[Canary],
    *,
    rows: int | None = None,
    tokenizer: Any = None,
    seed: int = 0,
) -> Preflight:
    """Look at the data of a ``Trainer`` before it trains: which copies of the canaries will the model read, and learn?

    Goes through the trainer's own training data, as its own template, packing and collator make it, in order; through
    ``rows`` rows of it if that is given. ``canaries`` is a manifest or what it holds. ``tokenizer`` stands in for the
    trainer's ``processing_class``. Nothing that training uses is changed: no weight, no gradient, no random number.

    Raises OptionError for a trainer without data or tokenizer, or whose batches are no language model's, and
    ManifestError for a manifest that cannot be read.
    """
    if rows is not None and rows < 1:
        raise OptionError(f"preflight: rows={rows}: give the number of rows to look at, 1 or more, or none for all")
    wanted = list(canaries) if not isinstance(canaries, str | Path) else read_manifest(canaries)
    processing = tokenizer if tokenizer is not None else trainer.processing_class
    found = getattr(processing, "tokenizer", processing)
    if found is None:
        raise OptionError("preflight: the trainer has no tokenizer: give it one with Trainer(processing_class=…)")
    with own_random_numbers():
        look = _Look(trainer, wanted, found, walk_through(trainer, rows, seed), planted_rows(canaries, wanted, found))
        for number, batch in look.walk.batches():
            look.at(batch, number)
        return look.report()


@dataclass
class _Found:
    """What was found of one canary so far."""

    whole: int = 0
    heads: int = 0
    tails: int = 0
    lone_tails: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    shares: list[float] = field(default_factory=list)
    sides: Counter[str] = field(default_factory=Counter)
    reached: bool | None = None


class _Look:
    """One look at a trainer's data."""

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
        # By text: canaries of one text cannot be told apart.
        self._found = {self._spelling(canary.text): _Found() for canary in canaries}
        self._rows = 0
        self._mixed: bool | None = None
        self._asked_about = {name: self._spelling(text) for name, text in planted.beginnings.items()}
        self._other_turns = [self._spelling(text) for text in planted.others]
        self._as_asked: bool | None = None
        self._bar = tqdm(total=walk.rows, unit="row", desc="Preflight", leave=False)

    def at(self, batch: Mapping[str, Any], number: int) -> None:
        """Look at a batch that was made of that ``number`` of rows of the data set."""
        rows = list(rows_of(batch, self._encodes))
        if self._mixed is None and not self._encodes and len(example_starts(batch)) > 1:
            self._mixed = self._asked(packed_read_each_other, batch)
        for row, text in zip(rows, self._decoder.texts([row.tokens for row in rows]), strict=True):
            spelled = self._spelling(text)
            for copy in self._finder.find(spelled):
                if copy.missing:
                    self._note_part(copy, batch, row, spelled)
                else:
                    self._note(copy, batch, row, text)
        # The last batch of a stream may be of more rows than were asked for.
        count = number if self.walk.rows is None else min(number, self.walk.rows - self._rows)
        self._rows += count
        self._bar.update(count)

    def _note_part(self, copy: Copy, batch: Mapping[str, Any], row: BatchRow, spelled: str) -> None:
        found = self._found[self._spelling(copy.canary.text)]
        # A preference pair's question stands in both of its rows.
        if row.pair == "rejected":
            return
        if not self._edges.cuts(copy, spelled, self._starts(batch, row)):
            found.changed["bare" if copy.bare else "tail" if copy.tail else "head"] += 1
            return
        if copy.bare:
            # A piece without either end says nothing of how many copies there were.
            return
        found.heads += not copy.tail
        found.tails += copy.tail and not copy.other_end_is_short
        found.lone_tails += copy.tail and copy.other_end_is_short

    def _starts(self, batch: Mapping[str, Any], row: BatchRow) -> list[int]:
        """The characters of a row's spelled text with which packed examples begin, but for the first."""
        packed = example_starts(batch)[1:] if row.at == 0 and not self._encodes else []
        return [len(self._spelling(each)) for each in self._decoder.texts([row.tokens[:place] for place in packed])]

    def _note(self, copy: Copy, batch: Mapping[str, Any], row: BatchRow, text: str) -> None:
        found = self._found[self._spelling(copy.canary.text)]
        tokens = self._decoder.tokens(row.tokens, *self._places(text, copy))
        counted = np.zeros(len(row.tokens), bool)
        counted[tokens] = row.counted[tokens]
        share = float(row.counted[tokens].mean())
        if row.pair == "rejected" and not share:
            return
        begin = copy.start - len(self._spelling(copy.canary.space.pieces[0]))
        # Pieces of one text may lie side by side, and yet neither is read with the other.
        if self._mixed is False and any(begin < start < copy.end for start in self._starts(batch, row)):
            found.heads += 1
            return
        found.whole += 1
        self._note_chat(copy, text)
        found.shares.append(share)
        if row.pair and share:
            found.sides[row.pair] += 1
        if share and not found.reached and not self._encodes:
            found.reached = self._asked(gradient_reaches, batch, row.at, self._padded(batch, row, counted))

    def _note_chat(self, copy: Copy, text: str) -> None:
        """Note whether a copy that is a conversation stands as an audit asks about it.

        A record beside the manifest may be of another file than the trainer's, so the row has to hold the other turns.
        """
        asked_about = self._asked_about.get(copy.canary.id)
        if asked_about is None:
            return
        spelled = self._spelling(text)
        if all(turn in spelled for turn in self._other_turns):
            self._as_asked = bool(self._as_asked) or asked_about in spelled

    def _asked(self, probe: Callable[..., bool | None], batch: Mapping[str, Any], *rest: Any) -> bool | None:
        """What the model answers to a probe. Raises OptionError where it cannot read the batch, as in training."""
        try:
            with undisturbed(self.model):
                return probe(self.model, batch, *rest)
        except Exception as error:
            raise OptionError(
                f"preflight: the model cannot read a batch of its training data ({type(error).__name__}: "
                f"{first_line(error)}): try a smaller max_length or per_device_train_batch_size"
            ) from error

    def _places(self, text: str, copy: Copy) -> tuple[int, int]:
        """Characters of the row's text that are the copy's secret, which was found in its spelling."""
        if self._spelling is as_it_is:
            return copy.start, copy.end
        origin = [place for place, character in enumerate(text) for _ in self._spelling(character)]
        return origin[copy.start], origin[copy.end - 1] + 1

    @staticmethod
    def _padded(batch: Mapping[str, Any], row: BatchRow, counted: np.ndarray) -> np.ndarray:
        """``counted`` over the whole width of the batch."""
        width = batch["input_ids"].shape[1]
        mask = batch.get("attention_mask")
        wide = np.zeros(width, bool)
        read = np.arange(width) if mask is None else np.flatnonzero(mask[row.at].cpu().numpy())
        wide[read] = counted
        return wide

    def report(self) -> Preflight:
        """What it came to."""
        self._bar.close()
        readings = tuple(self._reading(canary) for canary in self._canaries)
        walked = (self._rows, self.walk.total, manifest_hash(self._canaries))
        return Preflight(readings, *walked, trained_share(self.model), self._mixed, self._as_asked)

    def _reading(self, canary: Canary) -> CanaryCounts:
        found = self._found[self._spelling(canary.text)]
        return CanaryCounts(
            canary=canary.id,
            planted=canary.repetitions if canary.planted else 0,
            kind=canary.kind,
            whole=found.whole,
            # Of a copy divided between two rows both ends are found, unless one of them is too short.
            cut=max(found.heads, found.tails) + found.lone_tails,
            # Of one that was changed in its middle both ends are found, too, and its secret perhaps.
            changed=max(found.changed.values(), default=0),
            in_loss=sum(share == 1 for share in found.shares),
            in_part=sum(0 < share < 1 for share in found.shares),
            share=float(np.mean(found.shares)) if found.shares else 0.0,
            sides=dict(found.sides),
            reached=found.reached,
        )


def _spelling(tokenizer: Any, canaries: Sequence[Canary]) -> Spelling:
    """What tells canaries in texts that the tokenizer gives back. Raises OptionError where nothing does."""
    ids = [tokenizer(canary.text)["input_ids"] for canary in canaries]
    texts = Detokenizer(tokenizer).texts([np.asarray(each, int) for each in ids])
    for spelling in (as_it_is, squeezed):
        lost = [
            canary for canary, text in zip(canaries, texts, strict=True) if spelling(canary.text) not in spelling(text)
        ]
        if not lost:
            return spelling
    raise OptionError(
        f"preflight: the tokenizer does not give back the text of {lost[0].id} (it does not know some characters, or "
        "changes more than their case): use another alphabet or tokenizer, or nothing of this canary could be measured"
    )
