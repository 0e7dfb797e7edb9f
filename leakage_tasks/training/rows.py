"""Helpers of trainers: batches of rows of similar length, learning rate schedule, seeds, devices, memory."""

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
from leakage_tasks.targets.memory import free_on_gpu, out_of_memory

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BATCHES_A_BUCKET = 50


def bucketed(lengths: Sequence[int], batch_size: int, stream: random.Random) -> list[list[int]]:
    """Return batches of indices of rows with similar lengths, in random order. Each row is in one batch.

    Rows are divided at random into buckets of 50 batches and sorted by length within a bucket. So there is little
    padding, and each epoch has other batches. Batches have ``batch_size`` rows or fewer.
    """
    order = list(range(len(lengths)))
    stream.shuffle(order)
    bucket = batch_size * _BATCHES_A_BUCKET
    batches: list[list[int]] = []
    for start in range(0, len(order), bucket):
        similar = sorted(order[start : start + bucket], key=lambda row: lengths[row])
        batches += [similar[first : first + batch_size] for first in range(0, len(similar), batch_size)]
    stream.shuffle(batches)
    return batches


def token_rows(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """Return the token ids of each text with special tokens, truncated to ``max_length``."""
    return tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"] if texts else []


def padded(rows: Sequence[Sequence[int]], padding: int, device: torch.device | str) -> dict[str, Tensor]:
    """Return ``input_ids`` and ``attention_mask``, both [rows, longest], padded on the right."""
    ids, mask = batches.padded(rows, padding)
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}


def linear_warmup_decay(optimiser: torch.optim.Optimizer, steps: int, warm_up: float) -> LambdaLR:
    """Return a schedule that rises linearly over the share ``warm_up`` of ``steps``, then decays linearly to 0."""
    rising = int(warm_up * steps)

    def share(step: int) -> float:
        return (step + 1) / (rising + 1) if step < rising else (steps - step) / max(steps - rising, 1)

    return LambdaLR(optimiser, share)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's random state on the CPU and ``device`` inside the block, and restore it afterwards.

    Unlike ``torch.manual_seed``, this does not change other devices. Raises OptionError for a seed that torch rejects.
    """
    if not -(1 << 63) <= seed < 1 << 64:
        raise OptionError(f"seed is {seed}: give a number from 0 to {(1 << 64) - 1}")
    gpus = []
    if device.type == "cuda":
        gpus = [torch.cuda.current_device() if device.index is None else device.index]
    with torch.random.fork_rng(devices=gpus):
        for generator in (torch.default_generator, *(torch.cuda.default_generators[gpu] for gpu in gpus)):
            generator.manual_seed(seed)
        yield


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode inside the block, and restore the mode of each module afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def select_device(device: str | torch.device | None) -> torch.device:
    """Return ``device``, or by default the first GPU, or the CPU if there is no GPU."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def check_sizes(**sizes: int) -> None:
    """Raise OptionError naming the first size below 1."""
    for name, value in sizes.items():
        if value < 1:
            raise OptionError(f"{name} is {value}: give 1 or more")


def check_length(max_length: int, positions: int | None) -> None:
    """Raise OptionError if ``max_length`` exceeds the number of ``positions`` of a model."""
    if positions is not None and max_length > positions:
        raise OptionError(
            f"max_length is {max_length}: the model reads {positions} tokens at most: give {positions} or less"
        )


def memory_of(device: torch.device) -> float:
    """Return the bytes available for tensors: free memory of a CUDA GPU, otherwise the machine's total memory.

    Returns infinity if the memory is unknown.
    """
    if device.type == "cuda":
        return free_on_gpu(device)
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def explain_out_of_memory(remedy: str) -> Iterator[None]:
    """Raise LeakageError with ``remedy`` if torch runs out of memory inside the block."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise LeakageError(f"out of memory ({first_line(error)}): {remedy}") from None
