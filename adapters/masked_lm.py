"""``--model masked-lm --model_args pretrained=MODEL``: a masked language model as a harness model.

The cost of a text is its pseudo-log-perplexity: each token is masked in turn, with all other tokens known (Salazar et
al. 2020). This is not a probability of the text, so tasks that need probabilities or generation are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tqdm import tqdm

from adapters.base import LOADING, MAX_LENGTH, Answer, LocalLM
from leakage_tasks.harness.api import Instance
from leakage_tasks.targets.masked.rows import Query
from leakage_tasks.targets.masked.target import MaskedTarget, load_masked

GROUP_SIZE = 4096
"""Number of masked copies that are collected before the model reads them, so that short texts share batches."""


class MaskedLM(LocalLM):
    """Any masked language model of `transformers`; ``masked`` is its target.

    Takes the arguments of :class:`~adapters.base.LocalLM`, ``tokenizer`` and ``max_length``. Raises OptionError for an
    unknown or invalid option and TargetError if the model cannot be loaded.
    """

    OPTIONS = (*LOADING, MAX_LENGTH)
    PIPELINE = "fill-mask"
    no_probability = (
        "has no probability for running text, and pseudo-likelihoods must not be reported as probabilities: leave out "
        "heldout_bits_per_byte and other perplexities, and use multiple-choice tasks"
    )
    no_text = "it fills masks"

    def __init__(self, pretrained: Any, tokenizer: Any = None, **options: Any) -> None:
        super().__init__(pretrained, **options)
        self.masked = load_masked(pretrained, tokenizer=tokenizer, **self._loading)

    @property
    def target(self) -> MaskedTarget:
        """The model in the form that attacks use."""
        return self.masked

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """Return the continuation's pseudo-log-likelihood in nats for each ``(context, continuation)``.

        Each answer also states if the continuation is greedy, see :func:`pseudo_log_likelihoods`. Raises TargetError if
        context and continuation together exceed the model's maximum length.
        """
        queries = [self.masked.continuation(*request.args) for request in requests]
        answers = pseudo_log_likelihoods(self.masked, queries, disable_tqdm or self.rank != 0)
        return self._cached("loglikelihood", requests, answers)


def pseudo_log_likelihoods(masked: MaskedTarget, queries: Sequence[Query], quiet: bool) -> list[Answer]:
    """Return each query's sum of log-probabilities of its tokens in nats, and True if all its tokens are greedy.

    Each token is masked in turn, with all other tokens of both texts known (Salazar et al. 2020).
    """
    answers: list[Answer] = []
    with tqdm(total=len(queries), desc="Filling masks", disable=quiet) as bar:
        for group in _groups(queries):
            answers += masked.pseudo_log_likelihoods(group)
            bar.update(len(group))
    return answers


def _groups(queries: Sequence[Query]) -> Iterator[Sequence[Query]]:
    """Yield the queries in groups with enough masked tokens for a few batches."""
    first, total = 0, 0
    for number, (_, positions) in enumerate(queries, 1):
        total += len(positions)
        if total >= GROUP_SIZE or number == len(queries):
            yield queries[first:number]
            first, total = number, 0
