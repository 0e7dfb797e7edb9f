"""``--model masked-lm --model_args pretrained=MODEL``: a masked language model as a harness model.

A text costs its pseudo-log-perplexity: each token masked in turn, all others known (Salazar et al. 2020). It is no
probability of the text, so what needs one, or text written, is declined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tqdm import tqdm

from adapters.base import LOADING, ROOM, Answer, LocalLM
from leakage_tasks.harness.api import Instance
from leakage_tasks.targets.masked.rows import Query
from leakage_tasks.targets.masked.target import MaskedTarget, load_masked

TOGETHER = 4096
"""Masked copies of texts put together before the model reads them, so that short texts share batches."""


class MaskedLM(LocalLM):
    """Any masked language model of `transformers`; ``masked`` is its target.

    Takes the arguments of :func:`~leakage_tasks.targets.masked.target.load_masked`, ``batch_size`` and ``device`` as
    :class:`~adapters.base.LocalLM` does. Raises OptionError and TargetError.
    """

    OPTIONS = (*LOADING, ROOM)
    PIPELINE = "fill-mask"
    no_probability = (
        "gives running text no probability, and pseudo-likelihoods would stand in the table as if they were: leave out "
        "heldout_bits_per_byte and other perplexities, and take multiple-choice tasks"
    )
    no_text = "it fills masks"

    def __init__(self, pretrained: Any, tokenizer: Any = None, **options: Any) -> None:
        super().__init__(pretrained, **options)
        self.masked = load_masked(pretrained, tokenizer=tokenizer, **self._loading)

    @property
    def target(self) -> MaskedTarget:
        """See :class:`~adapters.base.LocalLM`."""
        return self.masked

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """For each ``(context, continuation)`` the continuation's pseudo-log-likelihood in nats, and if it is greedy.

        See :func:`pseudo_log_likelihoods`. Raises TargetError for texts that together are longer than the model reads.
        """
        queries = [self.masked.continuation(*request.args) for request in requests]
        answers = pseudo_log_likelihoods(self.masked, queries, disable_tqdm or self.rank != 0)
        return self._remembered("loglikelihood", requests, answers)


def pseudo_log_likelihoods(masked: MaskedTarget, queries: Sequence[Query], quiet: bool) -> list[Answer]:
    """For each query the sum of its tokens' log-probabilities in nats, and if each is the likeliest in its place.

    Each token has a mask in its place, all others of both texts are known (Salazar et al. 2020).
    """
    answers: list[Answer] = []
    with tqdm(total=len(queries), desc="Filling masks", disable=quiet) as bar:
        for group in _groups(queries):
            answers += masked.pseudo_log_likelihoods(group)
            bar.update(len(group))
    return answers


def _groups(queries: Sequence[Query]) -> Iterator[Sequence[Query]]:
    """The queries in groups that together ask about enough tokens for a few batches."""
    first, total = 0, 0
    for number, (_, places) in enumerate(queries, 1):
        total += len(places)
        if total >= TOGETHER or number == len(queries):
            yield queries[first:number]
            first, total = number, 0
