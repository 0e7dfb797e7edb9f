"""What trainers share: token rows in batches of like length, the learning rate's course, seeds, devices, memory."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import first_line
from leakage_tasks.targets import batches
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.memory_budget import free_on_gpu

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BATCHES_A_BUCKET = 50


def bucketed(lengths: Sequence[int], batch_size: int, stream: random.Random) -> list[list[int]]:
    """Row numbers in batches of ``batch_size`` (or fewer) of like length, each row once, batches in random order.

    Rows are dealt at random into buckets of 50 batches and sorted by length there, so that little is spent on padding
    and neighbours change from epoch to epoch.
    """
    order = list(range(len(lengths)))
    stream.shuffle(order)
    bucket = batch_size * _BATCHES_A_BUCKET
    batches: list[list[int]] = []
    for start in range(0, len(order), bucket):
        alike = sorted(order[start : start + bucket], key=lambda row: lengths[row])
        batches += [alike[first : first + batch_size] for first in range(0, len(alike), batch_size)]
    stream.shuffle(batches)
    return batches


def token_rows(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """Token ids of each text, special tokens included, cut to ``max_length``."""
    return tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"] if texts else []


def padded(rows: Sequence[Sequence[int]], padding: int, device: torch.device | str) -> dict[str, Tensor]:
    """``input_ids`` and ``attention_mask``, both [rows, longest], padded on the right."""
    ids, mask = batches.padded(rows, padding)
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}


def linear_warmup_decay(optimiser: torch.optim.Optimizer, steps: int, warm_up: float) -> LambdaLR:
    """A learning rate that rises linearly over the share ``warm_up`` of ``steps``, then falls linearly to nothing."""
    rising = int(warm_up * steps)

    def share(step: int) -> float:
        return (step + 1) / (rising + 1) if step < rising else (steps - step) / max(steps - rising, 1)

    return LambdaLR(optimiser, share)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """torch's random state is ``seed``'s inside, on the CPU and ``device``; afterwards it is what it was.

    Other devices' states are not touched, as ``torch.manual_seed`` would.
    """
    places = []
    if device.type == "cuda":
        places = [torch.cuda.current_device() if device.index is None else device.index]
    with torch.random.fork_rng(devices=places):
        for generator in (torch.default_generator, *(torch.cuda.default_generators[place] for place in places)):
            generator.manual_seed(seed)
        yield


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model in evaluation mode inside; afterwards each of its modules has the mode that it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def chosen_device(device: str | torch.device | None) -> torch.device:
    """``device``, or the first GPU, or the CPU."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def check_sizes(**sizes: int) -> None:
    """Raise OptionError naming the first size below 1."""
    for name, value in sizes.items():
        if value < 1:
            raise OptionError(f"{name} is {value}: give 1 or more")


def check_length(max_length: int, positions: int | None) -> None:
    """Raise OptionError where ``max_length`` exceeds the ``positions`` a model has."""
    if positions is not None and max_length > positions:
        raise OptionError(f"max_length is {max_length}: the model reads {positions} tokens at most; give that or less")


def memory_of(device: torch.device) -> float:
    """Bytes for tensors on ``device``: what is free on a GPU of CUDA, else all that the machine has.

    Infinite where the system does not tell.
    """
    if device.type == "cuda":
        return free_on_gpu(device)
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def allocations_told(remedy: str) -> Iterator[None]:
    """Raise LeakageError, which names ``remedy``, where torch cannot allocate what is asked of it inside."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise LeakageError(f"out of memory ({first_line(error)}): {remedy}") from None
